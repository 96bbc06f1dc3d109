/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Constants and memory shared by src/capture/ebpf/kernel-sketch.ts and the programs of observe.bpf.c; the layouts are documented there too. */
#ifndef HOPTIME_OBSERVE_H
#define HOPTIME_OBSERVE_H

#include "packet.h"
#include "filter.h"

#define MAX_BANKS 16
#define MAX_ROWS 16
#define MAX_VECTORS 16
#define MAX_SETS 8

/*
 * Times are from the monotonic clock, which is the cheapest to read: it is slewed like the wall clock, but never stepped. The difference to the wall clock is
 * added when a set is read.
 */
struct config {
	/* The fields that every packet needs are adjacent. */
	__u64 seed;
	__u64 lda_seed;
	__u64 lda_limit;
	__u32 cover;
	__u32 copy; /* bytes of a frame to parse */
	__u32 network; /* frames begin with the IP header */
	__u32 direction; /* of the socket: 0 both, 1 received, 2 sent */
	__u32 sets; /* a power of two */
	__u32 delimited;
	__u32 below; /* limit for the upper half of a delimiter's digest */
	__u32 hashes; /* the flow hash is needed */
	__u32 cells; /* per set and CPU */
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

/* Time window of a set; with delimiters: its start, and the digest of the packet that started it. */
struct window {
	__u64 start;
	__u64 end;
	__u64 base; /* times in the set are relative to this */
	__u64 id;
	__u64 flow_cut; /* flows with this hash or a larger one are only counted; 0: none */
	__u64 offset; /* wall clock - monotonic clock in ns, for all times in the set */
	__u64 pad[2];
};

struct control {
	__u64 current; /* set in use: its number (aligned), or the number of its epoch (delimited) */
	__u64 drained; /* delimited: epochs below this have been read */
	__u64 due; /* delimited: time of a cut by the clock */
	__u64 offset; /* wall clock - monotonic clock in ns, now */
	__u64 longest; /* longest frame of the interface; its MTU may change */
	__u64 pad[3];
	struct window window[MAX_SETS];
};

/* Per CPU and set. */
struct counts {
	__u64 bytes; /* of all frames, including those that were filtered or skipped */
	__u64 packets;
	__u64 shorts;
	__u64 merged;
	__u64 filtered;
	__u64 first; /* 0: no packet */
	__u64 last;
	__u64 skipped[8];
	__u64 fullest; /* packets in the fullest counter of COLATE */
	__u64 shed_packets; /* of flows that are only counted */
	__u64 shed_bytes;
	__u64 new_flows;
	__u64 lost; /* packets without a set, because user space was late; counted in set 0 */
	__u64 missed; /* delimiters that could not start an epoch, because no set was free */
	__u64 pad[11];
};

struct cell {
	__s64 sum;
	__u64 count_digest; /* packets u32 | xor of digests u32 */
};

struct flow_key {
	__u64 meta, a, b, c, d; /* the set is in the upper bits of meta */
};

struct flow {
	__u64 hash;
	__u64 packets;
	__u64 bytes;
};

/* For tests: the results for the last packet. */
struct last {
	struct row row;
	__u64 flow_hash;
	__u64 now;
	__u32 reason;
	__u32 passed;
};

#define SET_SHIFT 61

#endif
