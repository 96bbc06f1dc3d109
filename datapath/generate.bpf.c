// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * A packet generator for benchmarks. Run on live frames (BPF_F_TEST_XDP_LIVE_FRAMES), it turns each frame into a different packet of one of 256 flows and sends
 * it out of an interface.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC(".rodata.config") const volatile struct {
	__u32 interface;
	__u32 pad;
} config = { 0, 0 };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sent SEC(".maps");

/* Ethernet, IPv4 without options, UDP: identification at 18, source port at 34, payload from 42. */
SEC("xdp") int forward(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0, *n = bpf_map_lookup_elem(&sent, &key);

	if (!n || data + 46 > end)
		return XDP_DROP;
	*n += 1;
	*(__u16 *)(data + 18) = bpf_htons(*n);
	*(__u16 *)(data + 34) = bpf_htons(1024 + (*n & 255));
	*(__u32 *)(data + 42) = *n;
	return bpf_redirect(config.interface, 0);
}

char _license[] SEC("license") = "GPL";
