// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Does nothing. Where the kernel refuses it, tracing is restricted (lockdown, a sandbox): programs at tracepoints may be refused, too, or not run for
 * every packet, and what must not miss one goes another way.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("fentry/dev_hard_start_xmit") int tracing_probe(void *ctx)
{
	return 0;
}

char _license[] SEC("license") = "GPL";
