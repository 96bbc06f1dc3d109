/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * Reads the flow of a forwarded packet, starting at its network header. The most common packets (IPv4 without options, TCP or UDP, not a fragment) are read in
 * one piece; PARSE reads all others.
 */
#ifndef HOPTIME_FLOW_H
#define HOPTIME_FLOW_H

#include "segment.h"

#define PLAIN_BYTES 24
#define is_plain_v4(H) ((H)[0] == 0x45 && bpf_ntohs(*(const __u16 *)((H) + 2)) >= PLAIN_BYTES && (*(const __u16 *)((H) + 6) & bpf_htons(0x1fff)) == 0 && ((H)[9] == 6 || (H)[9] == 17))

/* Reads the flow from PLAIN_BYTES bytes at `h`; returns 0 if the packet is not of this kind. */
static __always_inline int plain_flow(const __u8 *h, struct flow *f)
{
	if (!is_plain_v4(h)) return 0;
	f->version = 4;
	f->dscp = h[1] >> 2;
	f->protocol = h[9];
	f->source[0] = *(const __u32 *)(h + 12);
	f->destination[0] = *(const __u32 *)(h + 16);
	*(__u32 *)&f->sport = *(const __u32 *)(h + 20);
	return 1;
}

/* The same for kernel memory, with loads that cannot fault. */
static __always_inline int plain_flow_at(const void *net, struct flow *f)
{
	const __u8 *ip = (void *)AS(struct iphdr, net), *ports = (void *)AS(struct udphdr, net + 20);
	if (!is_plain_v4(ip)) return 0;
	f->version = 4;
	f->dscp = ip[1] >> 2;
	f->protocol = ip[9];
	f->source[0] = *(const __u32 *)(ip + 12);
	f->destination[0] = *(const __u32 *)(ip + 16);
	f->sport = *(const __u16 *)ports;
	f->dport = *(const __u16 *)(ports + 2);
	return 1;
}

/* FETCH(offset from the network header, into, bytes) returns 0 on success. */

#define PARSE(FETCH, F)                                                                                     \
	({                                                                                                     \
		int ok = -1;                                                                                       \
		__u8 head[40] = {};                                                                                \
		__u32 at = 0, ports = 0;                                                                           \
		if (!(FETCH(0, head, 20))) {                                                                       \
			(F)->version = head[0] >> 4;                                                                   \
			if ((F)->version == 4) {                                                                       \
				(F)->dscp = head[1] >> 2;                                                                  \
				(F)->protocol = head[9];                                                                   \
				__builtin_memcpy(&(F)->source[0], head + 12, 4);                                           \
				__builtin_memcpy(&(F)->destination[0], head + 16, 4);                                      \
				at = (head[0] & 15) * 4;                                                                   \
				ports = ((head[6] & 0x1f) | head[7]) == 0;                                                 \
				ok = 0;                                                                                    \
			} else if ((F)->version == 6 && !(FETCH(0, head, 40))) {                                       \
				(F)->dscp = ((head[0] & 15) << 2) | (head[1] >> 6);                                        \
				__builtin_memcpy((F)->source, head + 8, 16);                                               \
				__builtin_memcpy((F)->destination, head + 24, 16);                                         \
				__u8 next = head[6];                                                                       \
				at = 40;                                                                                   \
				ports = 1;                                                                                 \
				_Pragma("unroll") for (int i = 0; i < 4; i++) {                                            \
					__u8 ext[8] = {};                                                                      \
					if (next != 0 && next != 43 && next != 44 && next != 60) break;                        \
					if (FETCH(at, ext, 8)) { ports = 0; break; }                                           \
					if (next == 44) {                                                                      \
						if ((ext[2] | (ext[3] & 0xf8)) != 0) ports = 0;                                    \
						at += 8;                                                                           \
					} else at += (ext[1] + 1) * 8;                                                         \
					next = ext[0];                                                                         \
					if (!ports) break;                                                                     \
				}                                                                                          \
				(F)->protocol = next;                                                                      \
				ok = 0;                                                                                    \
			}                                                                                              \
			if (!ok && ports && ((F)->protocol == 6 || (F)->protocol == 17 || (F)->protocol == 132 || (F)->protocol == 33)) \
				FETCH(at, &(F)->sport, 4);                                                                 \
		}                                                                                                  \
		ok;                                                                                                \
	})

#endif
