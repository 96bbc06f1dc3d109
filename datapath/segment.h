/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Constants, sums and maps shared by src/capture/ebpf/segment.ts and the programs of segment.bpf.c. The layouts are documented in segment-layout.ts too. */
#ifndef HOPTIME_SEGMENT_H
#define HOPTIME_SEGMENT_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#define MAX_WAYS 4
#define OLDEST_NS (60ULL * 1000000000) /* an older value is not one of our stamps */
#define QUEUED 1ULL                    /* lowest bit of a stamp: the packet has reached its output */

/* The fields of kernel types that are read; their offsets come from the running kernel (CO-RE). */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct Qdisc_ops { char id[16]; };
struct qdisc_skb_head { __u32 qlen; };
struct gnet_stats_queue { __u32 backlog; };
struct Qdisc { __u32 handle, parent; const struct Qdisc_ops *ops; struct qdisc_skb_head q; struct gnet_stats_queue qstats; };
struct netdev_queue { struct Qdisc *qdisc; };
struct ns_common { unsigned int inum; };
struct net { struct ns_common ns; };
typedef struct { struct net *net; } possible_net_t;
struct net_device { int ifindex; struct netdev_queue *_tx; possible_net_t nd_net; };
struct sk_buff { struct net_device *dev; void *sk; __s64 tstamp; unsigned int len, data_len; __u16 queue_mapping; __be16 protocol;
	int skb_iif; __be16 vlan_proto; __u16 vlan_tci; __u16 network_header; unsigned int end; unsigned char *head, *data; };
struct skb_shared_info { unsigned short gso_segs; };
struct iphdr { __u8 ttl; };
struct udphdr { __be16 source; };
#pragma clang attribute pop

/* Reads any address as one of these types; the program contains no call for it. */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;
#define AS(TYPE, P) ((TYPE *)bpf_rdonly_cast(P, bpf_core_type_id_kernel(TYPE)))

/* Set before the programs are loaded; in its own section, so that the offsets are known. */
SEC(".rodata.config") const volatile struct {
	__u64 epoch_base;   /* monotonic ns of the start of epoch 0 */
	__u64 epoch_length; /* ns */
	__u32 keep_sums;    /* epochs: classes, queues, flows */
	__u32 keep_packets; /* write every packet into the rings */
	__u32 by_mark;      /* segment_tap sees the departures */
	__u32 netns;        /* number of the network namespace: interface numbers are local to it */
	__u32 output[MAX_WAYS]; /* ifindex of the output of each path; 0: none */
	__u32 input[MAX_WAYS];
	__u32 cpus;         /* number of possible CPUs */
	__u32 groups;       /* histograms per set and CPU */
} config = { 0, 1000000000, 1, 0, 0, 0, {}, {}, 1, MAX_WAYS };

/* Memory shared with user space. */
#define SHARED(NAME, OF, COUNT) struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(map_flags, BPF_F_MMAPABLE); __uint(max_entries, COUNT); \
	__type(key, __u32); __type(value, OF); } NAME SEC(".maps")

/* The epoch for which each set is open; written by user space. */
SHARED(open_epochs, __u64, 2);

/* ---- what is counted of a group of packets ---- */

struct delays {
	__u64 left, left_bytes;  /* behind the queue */
	__u64 total, min1, max;  /* delay in ns; min1 is the minimum + 1, 0 without packets */
	__u64 square_low, square_high; /* sum of squares = high * 2^32 + low */
};

/* By DSCP: [set][CPU][path][DSCP]. */
#define CLASSES 64
struct class_sums {
	__u64 in, in_bytes;       /* reached the output */
	__u64 before, before_max; /* delay up to the output: forwarding */
	struct delays delays;
	__u64 pad[5];
};
SHARED(classes, struct class_sums, 1);

/*
 * Histograms of classes and transmit queues: [set][CPU][slot]. Slots are assigned as classes and queues appear; the first ones belong to paths and contain the
 * packets whose class has no slot. Buckets are those of src/base/math/log-histogram.ts: exact below 256, then 128 buckets per octave, up to 2^40 ns.
 */
#define BUCKETS (256 + 32 * 128)
struct group_sums {
	struct delays delays;    /* of queues, from the output to the driver */
	__u64 lost;
	__u64 qdisc;             /* its address */
	__u64 queue;             /* handle << 32 | parent of the qdisc */
	char kind[16];           /* its name */
	__u64 backlog_max, length_max; /* bytes and packets behind a packet that left */
	__u32 buckets[BUCKETS];
};
SHARED(groups, struct group_sums, 1);

/* Per set. slot: number + 1; 0: none yet. */
#define QUEUES 256
struct slots {
	__u64 used;
	__u64 lost[MAX_WAYS]; /* dropped between output and driver */
	__u32 slot[MAX_WAYS * (CLASSES + QUEUES)];
};
SHARED(slots, struct slots, 2);

struct flow { __u32 source[4], destination[4]; __be16 sport, dport; __u8 protocol, dscp, version, way; };
struct flow_sums { __u64 in, in_bytes, left, total, min1, max, square_low, square_high, last, steps, jitter; };
#define FLOWS(NAME) struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __uint(max_entries, 16384); \
	__type(key, struct flow); __type(value, struct flow_sums); } NAME SEC(".maps")
FLOWS(flows_0);
FLOWS(flows_1);

/* By path, since the programs were attached. */
struct counts {
	__u64 arrived;      /* stamped at the input, for any output */
	__u64 unstamped;    /* reached the output from the input without a stamp: not IP, or already inside at the start */
	__u64 late;         /* arrived when the set of their epoch was not open */
	__u64 no_flow, no_group; /* the table was full */
	__u64 merged;       /* packets merged into a large one (GRO), beyond the first */
	__u64 ring_in, ring_left; /* not in the rings, because they were full */
	__u64 marked;       /* have another mark: not timed */
};
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, MAX_WAYS); __type(key, __u32); __type(value, struct counts); } counted SEC(".maps");

/* Drops by path, place (0: at the queue, 1: before it) and reason. If a packet had no output yet, its drop counts for the input's first path. */
#define MAX_REASONS 4096
struct drop { __u8 way, place; __u16 reason; };
struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __uint(max_entries, 256); __type(key, struct drop); __type(value, __u64); } drops SEC(".maps");

/* The last large packet dropped at a queue; its segments may follow. */
struct whole { __u64 stamp; __u32 left; struct drop drop; };
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct whole); } wholes SEC(".maps");

/* Interfaces on top of an input (VLANs, a bridge) that packets of a path may be attributed to, with the paths as bits. */
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8192); __type(key, __u32); __type(value, __u32); } inputs SEC(".maps");

/* Marks set by others. */
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 1024); __type(key, __u32); __type(value, __u8); } marks SEC(".maps");

/* ---- every packet ---- */

#define SNAP 144
struct packet {
	__u64 arrival, departure; /* monotonic ns; departure is 0 before the queue */
	__u32 length, segments;
	__u16 captured, vlan_tci;
	__be16 vlan_proto; /* 0: no VLAN tag outside the frame */
	__u8 way, reserved;
	__u8 frame[SNAP];
};
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring_in SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring_left SEC(".maps");

#endif
