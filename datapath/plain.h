/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * Decodes the most common packets without a copy: Ethernet with at most one tag, IPv4 without options or IPv6 without extension headers, TCP or UDP, not a
 * fragment, at least PLAIN_COVER bytes long. Row and digest are identical to those of packet.h, which decodes all other packets.
 */
#ifndef HOPTIME_PLAIN_H
#define HOPTIME_PLAIN_H

#include "packet.h"

#define PLAIN_COVER 64

static __always_inline __u32 load16(const void *p)
{
	return bpf_ntohs(*(const __u16 *)p);
}
static __always_inline __u32 load32(const void *p)
{
	return bpf_ntohl(*(const __u32 *)p);
}
static __always_inline __u64 load64(const void *p)
{
	return *(const __u64 *)p;
}

static __always_inline int plain_v4(const __u8 *ip, struct row *r, __u64 seed, __u64 vlan, int keyed)
{
	__u32 whole = *(const __u32 *)(ip + 6) & 0xff00ff3f;
	__u32 destination = load32(ip + 16);
	__u32 proto = ip[9], flags = ip[8] | FLAG_IPID;
	__u64 first = load64(ip + 20), third = load64(ip + 36), h;

	if (ip[0] != 0x45 || load16(ip + 2) < PLAIN_COVER)
		return 0;
	if (whole == 17U << 24) {
		first &= 0x0000ffffffffffffULL;
	} else if (whole == 6U << 24) {
		third &= 0xffffffffffff0000ULL;
		flags |= (__u32)ip[33] << 8;
	} else {
		return 0;
	}
	h = mix_word(mix_word(seed, load64(ip + 12)), load64(ip + 2) & 0xff00ffffffffffffULL);
	h = mix_word(mix_word(mix_word(h, first), load64(ip + 28)), third);
	h = mix_word(mix_word(mix_word(h, load64(ip + 44)), load64(ip + 52)), *(const __u32 *)(ip + 60));
	if (destination >> 8 == 0xe00000 || destination == 0xffffffff)
		flags |= FLAG_LINK_LOCAL;
	r->digest = avalanche(h);
	if (!keyed)
		return 1;
	r->meta = META_PORTS | ((__u64)proto << 32) | ((__u64)(ip[1] >> 2) << 40) | load32(ip + 20) | vlan;
	r->a = ((__u64)load32(ip + 12) << 32) | destination;
	r->b = r->c = r->d = 0;
	r->ipid = load16(ip + 4);
	r->flags = flags;
	return 1;
}

static __always_inline int plain_v6(const __u8 *ip, struct row *r, __u64 seed, __u64 vlan, int keyed)
{
	__u32 payload = load16(ip + 4), proto = ip[6], flags = ip[7];
	__u64 sa = load64(ip + 8), sb = load64(ip + 16), da = load64(ip + 24), db = load64(ip + 32);
	__u64 first = load64(ip + 40), third = load64(ip + 56), h;

	if (ip[0] >> 4 != 6 || payload < PLAIN_COVER - 40)
		return 0;
	if (proto == 17) {
		first &= 0x0000ffffffffffffULL;
	} else if (proto == 6) {
		third &= 0xffffffffffff0000ULL;
		flags |= (__u32)ip[53] << 8;
	} else {
		return 0;
	}
	h = mix_word(mix_word(mix_word(mix_word(seed, sa), sb), da), db);
	h = mix_word(mix_word(h, ((__u64)payload << 32) | proto), 0);
	h = mix_word(mix_word(mix_word(h, first), load64(ip + 48)), third);
	if ((sa & 0xc0ff) == 0x80fe || (da & 0xc0ff) == 0x80fe || (da & 0xffff) == 0x02ff)
		flags |= FLAG_LINK_LOCAL;
	r->digest = avalanche(h);
	if (!keyed)
		return 1;
	r->meta = META_IPV6 | META_PORTS | ((__u64)proto << 32) | ((__u64)((load16(ip) >> 6) & 0x3f) << 40) |
		  load32(ip + 40) | vlan;
	r->a = __builtin_bswap64(sa);
	r->b = __builtin_bswap64(sb);
	r->c = __builtin_bswap64(da);
	r->d = __builtin_bswap64(db);
	r->ipid = 0;
	r->flags = flags;
	return 1;
}

/* `vlan`: a tag that the network card removed, or 0. `keyed`: more than the digest is needed. Returns 1 and fills in the row if the frame is of this kind. */
static __always_inline int decode_plain(const __u8 *frame, const __u8 *end, struct row *r, __u64 seed, __u64 vlan, int keyed)
{
	const __u8 *ip = frame + 14;
	__u32 type;

	if (ip + PLAIN_COVER > end)
		return 0;
	type = load16(frame + 12);
	if (type == 0x8100) {
		if (ip + 4 + PLAIN_COVER > end)
			return 0;
		if (vlan == 0)
			vlan = META_VLAN | ((__u64)(load16(frame + 14) & 0xfff) << 46);
		type = load16(frame + 16);
		ip += 4;
	}
	if (type == 0x0800)
		return plain_v4(ip, r, seed, vlan, keyed);
	if (type == 0x86dd)
		return plain_v6(ip, r, seed, vlan, keyed);
	return 0;
}

#endif
