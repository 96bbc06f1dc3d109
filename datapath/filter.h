/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * A filter expression as steps on a stack of results, compiled by src/capture/ebpf/kernel-filter.ts; the conditions are those of kernels/decode/filter.ts. The
 * steps are constants, so the verifier follows only one path through them.
 */
#ifndef HOPTIME_FILTER_H
#define HOPTIME_FILTER_H

#include "packet.h"

#define MAX_FILTER 32

enum question { ASK_CONSTANT, ASK_META, ASK_WORD, ASK_PORT, ASK_NET4, ASK_NET6, JOIN_AND, JOIN_OR, NEGATE };
enum column { COLUMN_WIRE, COLUMN_FLAGS, COLUMN_IPID, COLUMN_META_HIGH };

struct step {
	__u32 question;
	__u32 column;
	__u32 shift;
	__u32 mask;
	__u32 low;
	__u32 span;
	__u32 outside;
	__u32 ends;
	__u64 w[4];
};

static __always_inline __u32 answer(const struct row *r, const volatile struct step *q)
{
	__u32 source, destination, x, proto;

	switch (q->question) {
	case ASK_CONSTANT:
		return q->low;
	case ASK_META:
		return (r->meta & q->w[0]) == q->w[1];
	case ASK_WORD:
		x = q->column == COLUMN_WIRE	? r->wire
		    : q->column == COLUMN_FLAGS ? r->flags
		    : q->column == COLUMN_IPID	? r->ipid
						: (__u32)(r->meta >> 32);
		x = (x >> (q->shift & 31)) & q->mask;
		return ((x - q->low <= q->span) ^ q->outside) & ((r->meta & q->w[0]) == q->w[1]);
	case ASK_PORT:
		proto = (__u32)(r->meta >> 32) & 0xff;
		if (!(r->meta & META_PORTS) || (proto != q->w[0] && proto != q->w[1] && proto != q->w[2]))
			return 0;
		source = (((__u32)r->meta) >> 16) - q->low <= q->span;
		destination = ((__u32)r->meta & 0xffff) - q->low <= q->span;
		break;
	case ASK_NET4:
		if (r->meta & META_IPV6)
			return 0;
		source = ((__u32)(r->a >> 32) & q->mask) == q->low;
		destination = ((__u32)r->a & q->mask) == q->low;
		break;
	case ASK_NET6:
		if (!(r->meta & META_IPV6))
			return 0;
		source = (((r->a ^ q->w[0]) & q->w[2]) | ((r->b ^ q->w[1]) & q->w[3])) == 0;
		destination = (((r->c ^ q->w[0]) & q->w[2]) | ((r->d ^ q->w[1]) & q->w[3])) == 0;
		break;
	default:
		return 0;
	}
	return (q->ends >> (source | (destination << 1))) & 1;
}

#endif
