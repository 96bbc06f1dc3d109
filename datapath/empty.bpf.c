// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Programs that do nothing, read the clock, or count, at each hook. Benchmarks measure with them the cost of any program, and the loader is tested with them.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The constants are in their own section, so that their offsets are known without field names. */
SEC(".rodata.config") const volatile struct {
	__u32 add;
	__u32 pad;
} config = { 1, 0 };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} counted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} shared SEC(".maps");

static __always_inline void count(void)
{
	__u32 key = 0;
	__u64 *n = bpf_map_lookup_elem(&counted, &key);

	if (n)
		*n += config.add;
	n = bpf_map_lookup_elem(&shared, &key);
	if (n)
		*n += config.add;
}

SEC("xdp.frags") int empty_xdp(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* The minimum cost of a timestamp. */
SEC("xdp.frags") int clock_xdp(struct xdp_md *ctx)
{
	return bpf_ktime_get_ns() == 0 ? XDP_ABORTED : XDP_PASS;
}

SEC("xdp.frags") int count_xdp(struct xdp_md *ctx)
{
	count();
	return XDP_PASS;
}

/* -1 is TCX_NEXT: the next program or the stack decides. */
SEC("tc") int count_tc(struct __sk_buff *skb)
{
	count();
	return -1;
}

/* 0: no copy is kept for the socket. */
SEC("socket") int count_socket(struct __sk_buff *skb)
{
	count();
	return 0;
}

char _license[] SEC("license") = "GPL";
