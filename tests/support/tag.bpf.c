// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/* A VLAN on kernels without VLAN support: packets to one address are tagged when sent and untagged when received. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define TAGGED 0x0a600207 /* 10.96.2.7 */

SEC("tc/push") int push(struct __sk_buff *skb)
{
	__u32 destination = 0;

	if (skb->protocol == bpf_htons(0x0800) && !bpf_skb_load_bytes(skb, 30, &destination, 4) &&
	    destination == bpf_htonl(TAGGED))
		bpf_skb_vlan_push(skb, bpf_htons(0x8100), 7);
	return 0;
}

SEC("tc/pop") int pop(struct __sk_buff *skb)
{
	if (skb->vlan_present)
		bpf_skb_vlan_pop(skb);
	return 0;
}

char _license[] SEC("license") = "GPL";
