// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Does nothing. If the kernel rejects it, tracing is restricted (lockdown, a sandbox): programs at tracepoints may be rejected too, or may not run for every
 * packet. Functions that must not miss a packet then use another hook.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("fentry/dev_hard_start_xmit") int tracing_probe(void *ctx)
{
	return 0;
}

char _license[] SEC("license") = "GPL";
