/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * Converts a frame to the packet's row (digest, flow key, flags), or to the reason why it has none. The result is identical bit by bit to that of
 * kernels/decode/ (which contains the definitions, under the same names), except for frames with MAX_STEPS or more tags and labels, headers beyond the first
 * FRAME_BYTES, and tunnels, which are not decoded.
 *
 * Frames are parsed in a copy of their first bytes: offsets into it are masked, so that the verifier need not track them. The state of each step is kept in
 * memory (struct scratch), which the verifier does not track either, so each step is verified once instead of once per path. The most common packets are read
 * without a copy (plain.h).
 */
#ifndef HOPTIME_PACKET_H
#define HOPTIME_PACKET_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define META_IPV6 (1ULL << 59)
#define META_PORTS (1ULL << 60)
#define META_VLAN (1ULL << 58)

#define FLAG_FRAGMENT (1U << 16)
#define FLAG_LATER_FRAGMENT (1U << 17)
#define FLAG_SHORT (1U << 18)
#define FLAG_IPID (1U << 20)
#define FLAG_CUT_L4 (1U << 21)
#define FLAG_LINK_LOCAL (1U << 24)
#define FLAG_INBOUND (1U << 26)
#define FLAG_OUTBOUND (1U << 27)

enum reason { OK, NOT_IP, CUT_LINK, CUT_IP, BAD_IP, UNKNOWN_LINK, TOO_DEEP, REASONS };

#define MAX_NESTING 16
#define MAX_STEPS 128
/* Bytes of a frame that are read: a power of two, larger than the longest cover plus the headers before it. */
#define FRAME_BYTES 2048
#define MAX_WORDS 190
/* The longest IPv4 header, and the part of the TCP header that is read. */
#define IP_BYTES 80
/* Maximum number of extension headers in a copy: the shortest has 8 bytes. */
#define MAX_EXTENSIONS (FRAME_BYTES / 8)

#define P1 0x9e3779b185ebca87ULL
#define P2 0xc2b2ae3d27d4eb4fULL
#define P3 0x165667b19e3779f9ULL
#define P4 0x85ebca77c2b2ae63ULL
#define P5 0x27d4eb2f165667c5ULL

struct row {
	__u64 digest;
	__u64 meta;
	__u64 a, b, c, d;
	__u32 flags;
	__u32 wire;
	__u32 ipid;
	__u32 pad;
};

struct scratch {
	__u64 vlan;
	__u32 end; /* bytes of the frame in the copy */
	__u32 ip;
	/* walk_link */
	__u32 state, pos, type, nesting, framed, reason;
	/* walk_extensions */
	__u32 ext_proto, ext_l4, ext_flags, ext_cut;
	__u32 deep; /* headers continue beyond the copy: a longer copy would show more */
	__u32 pad;
	__u64 ext_fragment;
	__u8 bytes[FRAME_BYTES + 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch_map SEC(".maps");

static __always_inline struct scratch *scratch_of(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&scratch_map, &key);
}

/* The asm prevents the compiler from removing the mask, which the verifier needs. */
static __always_inline void *at(struct scratch *s, __u32 p)
{
	__u64 offset = p;

	asm volatile("%0 &= 2047" : "+r"(offset));
	return s->bytes + offset;
}
static __always_inline __u32 u8_at(struct scratch *s, __u32 p)
{
	return *(__u8 *)at(s, p);
}
static __always_inline __u32 be16_at(struct scratch *s, __u32 p)
{
	return bpf_ntohs(*(__u16 *)at(s, p));
}
static __always_inline __u32 be32_at(struct scratch *s, __u32 p)
{
	return bpf_ntohl(*(__u32 *)at(s, p));
}
static __always_inline __u64 u64_at(struct scratch *s, __u32 p)
{
	return *(__u64 *)at(s, p);
}

static __always_inline __u64 rotl(__u64 x, int r)
{
	return (x << r) | (x >> (64 - r));
}
static __always_inline __u64 mix_word(__u64 h, __u64 w)
{
	return rotl(h ^ (rotl(w * P2, 31) * P1), 27) * P1 + P4;
}
static __always_inline __u64 avalanche(__u64 h)
{
	h = (h ^ (h >> 33)) * P2;
	h = (h ^ (h >> 29)) * P3;
	return h ^ (h >> 32);
}
static __always_inline __u64 rehash(__u64 h, __u64 seed)
{
	return avalanche((h ^ seed) * P1 + P5);
}

static __always_inline int has_ports(__u32 proto)
{
	return proto == 6 || proto == 17 || proto == 132 || proto == 33 || proto == 136;
}

/*
 * Hashes the words from l4 to lim, with the protocol's checksum masked out; the last word is padded with zeros. A global function, so that it is verified once.
 */
__attribute__((noinline)) __u64 digest_l4(__u64 h, __u32 proto, __u32 l4, __u32 lim)
{
	struct scratch *s = scratch_of();
	__u32 p = l4, place = ~0U;
	__u64 keep = 0;

	if (!s)
		return 0;
	if (proto == 6) {
		place = l4 + 16;
		keep = 0xffffffffffff0000ULL;
	} else if (proto == 17 || proto == 136 || proto == 33) {
		place = l4;
		keep = 0x0000ffffffffffffULL;
	} else if (proto == 1 || proto == 58 || proto == 2) {
		place = l4;
		keep = 0xffffffff0000ffffULL;
	} else if (proto == 132) {
		place = l4 + 8;
		keep = 0xffffffff00000000ULL;
	}
	for (int i = 0; i < MAX_WORDS; i++) {
		__u64 w, mask = ~0ULL;

		if (p >= lim)
			break;
		w = u64_at(s, p);
		if (p + 8 > lim)
			mask = (1ULL << ((lim - p) << 3)) - 1;
		if (p == place)
			mask &= keep;
		h = mix_word(h, w & mask);
		p += 8;
	}
	return h;
}

enum state { ETHERNET, TYPE, MPLS, LLC, SNAP, PPP, DONE };

static __always_inline void end_walk(struct scratch *s, __u32 reason, __u32 ip)
{
	s->state = DONE;
	s->reason = reason;
	s->ip = ip;
}
static __always_inline void go(struct scratch *s, __u32 state, __u32 pos)
{
	s->state = state;
	s->pos = pos;
}
static __always_inline void go_type(struct scratch *s, __u32 type, __u32 pos, __u32 framed)
{
	s->type = type;
	s->framed = framed;
	s->nesting++;
	go(s, TYPE, pos);
}

static __always_inline void step_type(struct scratch *s, __u32 p, __u32 end)
{
	__u32 type = s->type;

	if (s->nesting > MAX_NESTING) {
		end_walk(s, TOO_DEEP, 0);
	} else if (type == 0x8100 || type == 0x88a8 || type == 0x9100 || type == 0x9200) {
		if (p + 4 > end)
			return end_walk(s, CUT_LINK, 0);
		if (s->vlan == 0)
			s->vlan = META_VLAN | ((__u64)(be16_at(s, p) & 0xfff) << 46);
		s->type = be16_at(s, p + 2);
		s->framed = 1;
		s->pos = p + 4;
	} else if (type == 0x0800 || type == 0x86dd) {
		end_walk(s, OK, p);
	} else if (type == 0x8847 || type == 0x8848) {
		go(s, MPLS, p);
	} else if (type == 0x8864 || type == 0x880b) {
		if (type == 0x8864 && p + 6 > end)
			return end_walk(s, CUT_LINK, 0);
		s->nesting++;
		go(s, PPP, type == 0x8864 ? p + 6 : p);
	} else if (type <= 1500) {
		if (s->framed)
			go(s, LLC, p);
		else
			end_walk(s, NOT_IP, 0);
	} else if (type == 0x6558) {
		go(s, ETHERNET, p);
	} else if (type == 0x88e7) {
		go(s, ETHERNET, p + 4);
	} else if (type == 0xd28b) {
		/* A timestamp that a switch inserted before the packet's own type. */
		if (p + 14 > end)
			return end_walk(s, CUT_LINK, 0);
		if (be16_at(s, p) != 1)
			return end_walk(s, NOT_IP, 0);
		p += u8_at(s, p + 3) >> 4 == 2 ? 10 : 12;
		go_type(s, be16_at(s, p), p + 2, 1);
	} else {
		end_walk(s, NOT_IP, 0);
	}
}

static __always_inline void step_mpls(struct scratch *s, __u32 p, __u32 end)
{
	__u32 label, nibble;

	if (p + 4 > end)
		return end_walk(s, CUT_LINK, 0);
	label = be32_at(s, p);
	p += 4;
	if ((label & 0x100) == 0) {
		s->pos = p;
		return;
	}
	if (p >= end)
		return end_walk(s, CUT_LINK, 0);
	nibble = u8_at(s, p) >> 4;
	if (nibble == 4 || nibble == 6)
		end_walk(s, OK, p);
	else if (nibble == 0)
		go(s, ETHERNET, p + 4); /* control word of a pseudowire */
	else
		end_walk(s, NOT_IP, 0);
}

static __always_inline void step_llc(struct scratch *s, __u32 p, __u32 end)
{
	__u32 saps;

	if (p + 3 > end)
		return end_walk(s, CUT_LINK, 0);
	saps = be16_at(s, p);
	if (u8_at(s, p + 2) != 0x03)
		end_walk(s, NOT_IP, 0);
	else if (saps == 0x0606)
		end_walk(s, OK, p + 3);
	else if (saps != 0xaaaa)
		end_walk(s, NOT_IP, 0);
	else if (p + 8 > end)
		end_walk(s, CUT_LINK, 0);
	else
		go(s, SNAP, p + 3);
}

static __always_inline void step_snap(struct scratch *s, __u32 p, __u32 end)
{
	__u32 organisation, type;

	if (p + 5 > end)
		return end_walk(s, CUT_LINK, 0);
	organisation = be32_at(s, p) >> 8;
	type = be16_at(s, p + 3);
	if (organisation == 0 || organisation == 0xf8)
		go_type(s, type, p + 5, 0);
	else if (organisation == 0x80c2 && (type == 1 || type == 7))
		go(s, ETHERNET, p + 7);
	else
		end_walk(s, NOT_IP, 0);
}

static __always_inline void step_ppp(struct scratch *s, __u32 p, __u32 end)
{
	__u32 proto;

	if (s->nesting > MAX_NESTING)
		return end_walk(s, TOO_DEEP, 0);
	if (p + 2 > end)
		return end_walk(s, CUT_LINK, 0);
	if (be16_at(s, p) == 0xff03)
		p += 2;
	if (p + 1 > end)
		return end_walk(s, CUT_LINK, 0);
	proto = u8_at(s, p);
	if (proto & 1) {
		p += 1;
	} else {
		if (p + 2 > end)
			return end_walk(s, CUT_LINK, 0);
		proto = be16_at(s, p);
		p += 2;
	}
	if (proto == 0x21 || proto == 0x57)
		end_walk(s, OK, p);
	else if (proto == 0x281 || proto == 0x283)
		go(s, MPLS, p);
	else
		end_walk(s, NOT_IP, 0);
}

/* Walks an Ethernet frame; returns the reason, and s->ip. s->vlan is a tag that the network card removed, or 0. */
__attribute__((noinline)) int walk_link(void)
{
	struct scratch *s = scratch_of();

	if (!s)
		return CUT_LINK;
	s->state = ETHERNET;
	s->pos = 0;
	s->nesting = 0;
	s->reason = TOO_DEEP;
	for (int i = 0; i < MAX_STEPS; i++) {
		__u32 state = *(volatile __u32 *)&s->state;
		__u32 p = *(volatile __u32 *)&s->pos;
		__u32 end = *(volatile __u32 *)&s->end;

		if (state == DONE)
			break;
		if (state == ETHERNET) {
			if (p + 14 > end)
				end_walk(s, CUT_LINK, 0);
			else
				go_type(s, be16_at(s, p + 12), p + 14, 1);
		} else if (state == TYPE) {
			step_type(s, p, end);
		} else if (state == MPLS) {
			step_mpls(s, p, end);
		} else if (state == LLC) {
			step_llc(s, p, end);
		} else if (state == SNAP) {
			step_snap(s, p, end);
		} else {
			step_ppp(s, p, end);
		}
	}
	return s->reason;
}

/* Walks the IPv6 extension headers of the packet at `ip`; reads nothing at or beyond `limit`. */
__attribute__((noinline)) int walk_extensions(__u32 ip, __u32 limit)
{
	struct scratch *s = scratch_of();

	if (!s)
		return 0;
	s->ext_proto = u8_at(s, ip + 6);
	s->ext_l4 = ip + 40;
	s->ext_flags = 0;
	s->ext_fragment = 0;
	s->ext_cut = 0;
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		__u32 proto = *(volatile __u32 *)&s->ext_proto;
		__u32 l4 = *(volatile __u32 *)&s->ext_l4;
		__u32 next, length;
		int fragment = proto == 44;

		if (!fragment && proto != 0 && proto != 43 && proto != 60 && proto != 51 && proto != 135 &&
		    proto != 139 && proto != 140)
			return 0;
		if (l4 + (fragment ? 8 : 2) > limit) {
			s->ext_cut = 1;
			return 0;
		}
		next = u8_at(s, l4);
		if (next == 59 && (proto == 135 || proto == 139 || proto == 140))
			return 0;
		if (fragment) {
			__u32 field = be16_at(s, l4 + 2);

			s->ext_fragment = ((__u64)field << 32) | be32_at(s, l4 + 4);
			s->ext_flags |= FLAG_IPID;
			if (field & 0xfff9)
				s->ext_flags |= FLAG_FRAGMENT;
			s->ext_proto = next;
			s->ext_l4 = l4 + 8;
			if (field & 0xfff8) {
				s->ext_flags |= FLAG_LATER_FRAGMENT;
				return 0;
			}
			continue;
		}
		length = u8_at(s, l4 + 1);
		s->ext_l4 = l4 + (proto == 51 ? (length + 2) << 2 : (length + 1) << 3);
		s->ext_proto = next;
	}
	/* More headers than supported: treated like a chain beyond the limit. */
	s->ext_cut = 1;
	return 0;
}

/* `left`: bytes on the wire, starting at `ip`. */
__attribute__((noinline)) int row_v4(struct row *r, __u32 left, __u32 cover, __u64 seed)
{
	struct scratch *s = scratch_of();
	__u32 ip, end, ihl, total, frag, proto, l4, visible, seen, covered, destination, flags;
	__u64 h, meta;

	if (!r || !s)
		return CUT_IP;
	ip = s->ip;
	end = s->end;
	ihl = (u8_at(s, ip) & 15) << 2;
	if (ihl < 20)
		return BAD_IP;
	if (ip + 20 > end)
		return CUT_IP;
	total = be16_at(s, ip + 2);
	if (total == 0)
		total = left;
	if (total < ihl)
		return BAD_IP;
	frag = be16_at(s, ip + 6);
	proto = u8_at(s, ip + 9);
	l4 = ip + ihl;
	visible = end - ip;
	seen = ip + (visible < total ? visible : total);
	covered = seen < ip + cover ? seen : ip + cover;
	destination = be32_at(s, ip + 16);
	flags = u8_at(s, ip + 8) | FLAG_IPID;
	if (destination >> 8 == 0xe00000 || destination == 0xffffffff)
		flags |= FLAG_LINK_LOCAL;
	h = mix_word(mix_word(seed, u64_at(s, ip + 12)), u64_at(s, ip + 2) & 0xff00ffffffffffffULL);
	meta = ((__u64)proto << 32) | ((__u64)(u8_at(s, ip + 1) >> 2) << 40) | s->vlan;
	if ((frag & 0x1fff) == 0) {
		if (frag & 0x2000)
			flags |= FLAG_FRAGMENT;
		if (has_ports(proto)) {
			if (l4 + 4 <= seen)
				meta |= META_PORTS | be32_at(s, l4);
			else
				flags |= FLAG_CUT_L4;
			if (proto == 6 && l4 + 14 <= seen)
				flags |= u8_at(s, l4 + 13) << 8;
		}
		h = digest_l4(h, proto, l4, covered);
	} else {
		flags |= FLAG_FRAGMENT | FLAG_LATER_FRAGMENT;
		h = digest_l4(h, 255, l4, covered);
	}
	if (total > left)
		total = left;
	if (visible < (total < cover ? total : cover))
		flags |= FLAG_SHORT;
	r->digest = avalanche(h);
	r->meta = meta;
	r->a = ((__u64)be32_at(s, ip + 12) << 32) | destination;
	r->b = r->c = r->d = 0;
	r->ipid = be16_at(s, ip + 4);
	r->flags = flags;
	return OK;
}

__attribute__((noinline)) int row_v6(struct row *r, __u32 left, __u32 cover, __u64 seed)
{
	struct scratch *s = scratch_of();
	__u32 ip, end, payload, total, visible, seen, covered, flags, proto, l4, cut, limit;
	__u64 h, sa, sb, da, db, meta;
	int plain, reached;

	if (!r || !s)
		return CUT_IP;
	ip = s->ip;
	end = s->end;
	if (ip + 40 > end)
		return CUT_IP;
	payload = be16_at(s, ip + 4);
	total = payload == 0 && left > 1280 ? left : payload + 40;
	visible = end - ip;
	seen = ip + (visible < total ? visible : total);
	limit = cover > 40 ? cover : 40;
	covered = seen < ip + limit ? seen : ip + limit;
	walk_extensions(ip, covered);
	sa = u64_at(s, ip + 8);
	sb = u64_at(s, ip + 16);
	da = u64_at(s, ip + 24);
	db = u64_at(s, ip + 32);
	h = mix_word(mix_word(mix_word(mix_word(seed, sa), sb), da), db);
	h = mix_word(mix_word(h, ((__u64)payload << 32) | s->ext_proto), s->ext_fragment);
	plain = s->ext_cut || (s->ext_flags & FLAG_LATER_FRAGMENT);
	if (s->ext_l4 < covered)
		h = digest_l4(h, plain ? 255 : s->ext_proto, s->ext_l4, covered);
	/* Ports beyond the digest's cover are not part of the key either, because another point may not see them. */
	reached = !s->ext_cut && s->ext_l4 + 4 <= covered;
	if (s->ext_cut)
		walk_extensions(ip, seen);
	proto = s->ext_proto;
	l4 = s->ext_l4;
	cut = s->ext_cut;
	flags = u8_at(s, ip + 7) | s->ext_flags;
	if ((sa & 0xc0ff) == 0x80fe || (da & 0xc0ff) == 0x80fe || (da & 0xffff) == 0x02ff)
		flags |= FLAG_LINK_LOCAL;
	meta = META_IPV6 | ((__u64)proto << 32) | ((__u64)((be16_at(s, ip) >> 6) & 0x3f) << 40) | s->vlan;
	if (cut) {
		flags |= FLAG_CUT_L4;
		s->deep = visible < total;
	} else if (!(flags & FLAG_LATER_FRAGMENT) && has_ports(proto)) {
		if (reached)
			meta |= META_PORTS | be32_at(s, l4);
		else
			flags |= FLAG_CUT_L4;
		if (proto == 6 && l4 + 14 <= seen)
			flags |= u8_at(s, l4 + 13) << 8;
		s->deep = l4 + 14 > seen && visible < total;
	}
	if (total > left)
		total = left;
	if (visible < (total < cover ? total : cover))
		flags |= FLAG_SHORT;
	r->digest = avalanche(h);
	r->meta = meta;
	r->a = __builtin_bswap64(sa);
	r->b = __builtin_bswap64(sb);
	r->c = __builtin_bswap64(da);
	r->d = __builtin_bswap64(db);
	r->ipid = (__u32)s->ext_fragment;
	r->flags = flags;
	return OK;
}

/* Decodes the frame in the scratch memory; s->end bytes are present, `wire` bytes were on the wire. `network`: it begins with the IP header. */
static __always_inline int decode(struct scratch *s, struct row *r, __u32 wire, __u32 cover, __u64 seed, int network)
{
	__u32 version;
	int reason;

	s->deep = 0;
	if (network) {
		s->ip = 0;
	} else {
		reason = walk_link();
		s->deep = reason == CUT_LINK && s->end < wire;
		if (reason != OK)
			return s->deep ? TOO_DEEP : reason;
	}
	if (s->end < wire && s->ip + (cover < IP_BYTES ? IP_BYTES : cover) > s->end) {
		s->deep = 1;
		return TOO_DEEP;
	}
	if (s->ip >= s->end)
		return CUT_IP;
	version = u8_at(s, s->ip) >> 4;
	if (version == 6)
		return row_v6(r, wire - s->ip, cover, seed);
	if (version == 4)
		return row_v4(r, wire - s->ip, cover, seed);
	return BAD_IP;
}

#endif
