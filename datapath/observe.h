/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* What src/capture/ebpf/kernel-sketch.ts and the programs of observe.bpf.c share: constants, and memory that both sides see. Layouts are drawn there, too. */
#ifndef HOPTIME_OBSERVE_H
#define HOPTIME_OBSERVE_H

#include "packet.h"
#include "filter.h"

#define MAX_BANKS 16
#define MAX_ROWS 16
#define MAX_VECTORS 16
#define MAX_SETS 8

/* Times are the monotonic clock's, the cheapest to read: it is slewed as the wall clock is, and never set. What is between the two is added when a set is read. */
struct config {
	/* What every packet needs lies together. */
	__u64 seed;
	__u64 lda_seed;
	__u64 lda_limit;
	__u32 cover;
	__u32 copy; /* bytes of a frame that are parsed */
	__u32 network; /* frames begin with the IP header */
	__u32 direction; /* of the socket: 0 both, 1 received, 2 sent */
	__u32 sets; /* a power of two */
	__u32 delimited;
	__u32 below; /* upper halves of digests of delimiters */
	__u32 hashes; /* the flow hash is needed */
	__u32 cells; /* of one set of one CPU */
	__u32 lda_at, lda_banks, lda_rows;
	__u32 lds_at, lds_rows, lds_columns, lds_k;
	__u32 colate_at, colate_m, colate_vectors, colate_shift;
	__u32 flows; /* flows are counted */
	__u32 steps; /* of the filter; 0: none */
	__u32 keep_last; /* for tests */
	__u32 pad;
	__u64 lda_from[MAX_BANKS];
	__u64 mask[7]; /* of the flow key: kernels/decode/digest.ts, keyFlows */
	__u64 lds_threshold[MAX_ROWS];
	__u64 colate_multiplier;
	__u64 colate_edge[MAX_VECTORS];
	struct step filter[MAX_FILTER];
};

/* When packets belong to a set; delimited: where it began, and by which packet. */
struct window {
	__u64 start;
	__u64 end;
	__u64 base; /* times in the set count from here */
	__u64 id;
	__u64 flow_cut; /* flows with this hash or a larger one are only counted; 0: none */
	__u64 offset; /* wall clock - monotonic clock, ns, for all times in the set */
	__u64 pad[2];
};

struct control {
	__u64 current; /* set in use: aligned its number, delimited that of its epoch */
	__u64 drained; /* delimited: epochs below it were read */
	__u64 due; /* delimited: a cut by the clock */
	__u64 offset; /* wall clock - monotonic clock, ns, now */
	__u64 longest; /* frame that the interface carries as one; its MTU may change */
	__u64 pad[3];
	struct window window[MAX_SETS];
};

/* Per CPU and set. */
struct counts {
	__u64 bytes; /* of all frames: packets, and those that were filtered or skipped */
	__u64 packets;
	__u64 shorts;
	__u64 merged;
	__u64 filtered;
	__u64 first; /* 0: no packet */
	__u64 last;
	__u64 skipped[8];
	__u64 fullest; /* packets in the fullest counter of COLATE */
	__u64 shed_packets; /* of flows beyond the cut */
	__u64 shed_bytes;
	__u64 new_flows;
	__u64 lost; /* packets of no set: the other side was late; counted in set 0 */
	__u64 missed; /* delimiters that could not cut, because no set was free */
	__u64 pad[11];
};

struct cell {
	__s64 sum;
	__u64 count_digest; /* packets u32 | xor of digests u32 */
};

struct flow_key {
	__u64 meta, a, b, c, d; /* the set in the upper bits of meta */
};

struct flow {
	__u64 hash;
	__u64 packets;
	__u64 bytes;
};

/* For tests: what was made of the last packet. */
struct last {
	struct row row;
	__u64 flow_hash;
	__u64 now;
	__u32 reason;
	__u32 passed;
};

#define SET_SHIFT 61

#endif
