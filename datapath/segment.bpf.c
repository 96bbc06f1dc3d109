// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * One box, no second point: how long forwarded packets are inside it, from one interface to another.
 *
 *   segment_xdp   XDP, ingress (where asked for)   now -> XDP metadata
 *   segment_in    tc, ingress                      that time, or now -> skb->tstamp, as a delivery time on the monotonic clock
 *   segment_out   tc, egress of the output         the packet has reached the output: counted, before the qdisc
 *   segment_left  tp_btf net_dev_start_xmit        it goes to the driver, behind the qdisc: now - skb->tstamp is its delay
 *   segment_tap   socket filter, output            the same place, for kernels that restrict tracing; the time is in skb->mark
 *   segment_lost  tp_btf kfree_skb                it was dropped, with the kernel's reason
 *
 * A delivery time stays with a packet while it is forwarded or bridged (the kernel clears all other timestamps there), is copied to the
 * parts that a large packet is cut into, and is taken off again where a packet is delivered to this host. It lies in the past, which every
 * queue but etf and taprio takes for "now". The lowest bit of the time says that the packet has reached its output.
 *
 * Packet sockets see copies without the time: for them segment_out puts its lower half into the mark, after routing and firewall, and only into
 * marks that are 0. The tracepoint needs no mark.
 *
 * A packet belongs to the epoch in which it arrived, at all places. Sets of maps take turns: that of epoch e is e & 1; user space reads it
 * when all its packets have left or are lost, and opens it for epoch e + 2. What comes for a set that is not open is counted as late.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#define MAX_WAYS 4
#define OLDEST_NS (60ULL * 1000000000) /* what is older is no stamp of ours */
#define QUEUED 1ULL                    /* lowest bit of a stamp: the packet has reached its output */

/* The part of the kernel's types that is read; offsets come from the running kernel (CO-RE). */
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
#pragma clang attribute pop

/* Set before the programs are loaded; in a section of its own, so that its bytes are known. */
SEC(".rodata.config") const volatile struct {
	__u64 epoch_base;   /* monotonic ns of the start of epoch 0 */
	__u64 epoch_length; /* ns */
	__u32 keep_sums;    /* epochs: classes, queues, flows */
	__u32 keep_packets; /* every packet into the rings */
	__u32 by_mark;      /* departures are seen by segment_tap */
	__u32 netns;        /* number of the network namespace: interfaces have their numbers within it */
	__u32 output[MAX_WAYS]; /* ifindex of the output of each way; 0: none */
} config = { 0, 1000000000, 1, 0, 0, 0, {} };

/* Epoch that each set is open for; written by user space. */
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(map_flags, BPF_F_MMAPABLE); __uint(max_entries, 2); __type(key, __u32); __type(value, __u64); } open_epochs SEC(".maps");

/* ---- what is counted of a group of packets ---- */

/* As src/base/math/log-histogram.ts: exact below 256, then 128 buckets per octave, up to 2^40 ns. */
#define BUCKETS (256 + 32 * 128)
struct sums {
	__u64 in, in_bytes;      /* reached the output */
	__u64 left, left_bytes;  /* behind the queue */
	__u64 lost;              /* dropped in between */
	__u64 total, min1, max;  /* delay, ns; min1 is the minimum + 1, 0 where there is none */
	__u64 square_low, square_high; /* sum of squares = high * 2^32 + low */
	__u64 before, before_max; /* of the delay, up to the output: forwarding */
	__u64 queue;             /* handle << 32 | parent of the qdisc */
	char kind[16];           /* its name */
	__u64 backlog_max, length_max; /* bytes and packets behind one that left */
	__u32 buckets[BUCKETS];
};
/* 0: all packets of a way; 1: by DSCP; 2: by transmit queue */
struct group { __u8 way, kind; __u16 id; };
struct flow { __u32 source[4], destination[4]; __be16 sport, dport; __u8 protocol, dscp, version, way; };
struct flow_sums { __u64 in, in_bytes, left, total, min1, max, square_low, square_high, last, steps, jitter; };

#define GROUPS(NAME) struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __uint(max_entries, 64); \
	__type(key, struct group); __type(value, struct sums); } NAME SEC(".maps")
GROUPS(groups_0);
GROUPS(groups_1);
#define FLOWS(NAME) struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __uint(max_entries, 16384); \
	__type(key, struct flow); __type(value, struct flow_sums); } NAME SEC(".maps")
FLOWS(flows_0);
FLOWS(flows_1);

/* Since the programs were attached, by way. */
struct counts {
	__u64 arrived;      /* stamped at the input, wherever they go */
	__u64 unstamped;    /* reached the output from the input without a stamp: not IP, or there before */
	__u64 late;         /* came when their epoch's set was not open any more, or not yet */
	__u64 no_flow, no_group; /* the table was full */
	__u64 merged;       /* packets that came as one large one (GRO), beyond the first */
	__u64 ring_in, ring_left; /* not in the rings: no room */
	__u64 marked;       /* have a mark of their own: not timed */
};
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, MAX_WAYS); __type(key, __u32); __type(value, struct counts); } counted SEC(".maps");

/* Drops by way, place (0: at the queue, 1: before it) and reason. Those of an input whose packets had no output yet are of its first way. */
#define MAX_REASONS 4096
struct drop { __u8 way, place; __u16 reason; };
struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __uint(max_entries, 256); __type(key, struct drop); __type(value, __u64); } drops SEC(".maps");

/* Interfaces that packets of a way come by (VLANs of the input too): bits of the ways. */
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8192); __type(key, __u32); __type(value, __u32); } inputs SEC(".maps");

/* Marks that are not ours. */
struct { __uint(type, BPF_MAP_TYPE_LRU_HASH); __uint(max_entries, 1024); __type(key, __u32); __type(value, __u8); } marks SEC(".maps");

/* ---- every packet ---- */

#define SNAP 144
struct packet {
	__u64 arrival, departure; /* monotonic ns; departure is 0 before the queue */
	__u32 length, segments;
	__u16 captured, vlan_tci;
	__be16 vlan_proto; /* 0: no tag beside the frame */
	__u8 way, reserved;
	__u8 frame[SNAP];
};
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring_in SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring_left SEC(".maps");

static const struct sums no_sums = {};

static __always_inline struct counts *counts_of(__u32 way) { return bpf_map_lookup_elem(&counted, &way); }

static __always_inline __u32 bucket_of(__u64 ns)
{
	if (ns < 256) return ns;
	if (ns >= 1ULL << 40) ns = (1ULL << 40) - 1;
	__u32 e = 0;
	__u64 v = ns;
	if (v >> 32) { e += 32; v >>= 32; }
	if (v >> 16) { e += 16; v >>= 16; }
	if (v >> 8) { e += 8; v >>= 8; }
	if (v >> 4) { e += 4; v >>= 4; }
	if (v >> 2) { e += 2; v >>= 2; }
	if (v >> 1) e += 1;
	return 256 + (e - 8) * 128 + (__u32)(ns >> (e - 7)) - 128;
}

static __always_inline void add_square(__u64 *low, __u64 *high, __u64 ns, __u64 n)
{
	if (ns >> 32) {
		__u64 v = ns >> 8, s = v * v;
		*high += n * (s >> 16);
		*low += n * ((s & 0xffff) << 16);
	} else {
		__u64 s = ns * ns;
		*high += n * (s >> 32);
		*low += n * (s & 0xffffffff);
	}
}

/* ---- headers: read by FETCH(offset from the network header, into, bytes), which is 0 where it works ---- */

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

/* ---- epochs ---- */

/* The set of a stamp's epoch; -1 where it is not open. */
static __always_inline int set_of(__u64 stamp)
{
	if (stamp < config.epoch_base) return -1;
	__u64 epoch = (stamp - config.epoch_base) / config.epoch_length;
	__u32 set = epoch & 1;
	volatile __u64 *open = bpf_map_lookup_elem(&open_epochs, &set);
	return open && *open == epoch ? (int)set : -1;
}

static __always_inline struct sums *group_of(int set, const struct group *g)
{
	struct sums *s = set ? bpf_map_lookup_elem(&groups_1, g) : bpf_map_lookup_elem(&groups_0, g);
	if (s) return s;
	if (set) bpf_map_update_elem(&groups_1, g, &no_sums, BPF_NOEXIST);
	else bpf_map_update_elem(&groups_0, g, &no_sums, BPF_NOEXIST);
	return set ? bpf_map_lookup_elem(&groups_1, g) : bpf_map_lookup_elem(&groups_0, g);
}

static __always_inline struct flow_sums *flow_of(int set, const struct flow *f)
{
	struct flow_sums *s = set ? bpf_map_lookup_elem(&flows_1, f) : bpf_map_lookup_elem(&flows_0, f);
	if (s) return s;
	struct flow_sums none = {};
	if (set) bpf_map_update_elem(&flows_1, f, &none, BPF_NOEXIST);
	else bpf_map_update_elem(&flows_0, f, &none, BPF_NOEXIST);
	return set ? bpf_map_lookup_elem(&flows_1, f) : bpf_map_lookup_elem(&flows_0, f);
}

static __noinline int add_in(int set, struct group *g, __u64 before, __u32 bytes, __u32 n)
{
	if (!g) return 0;
	struct sums *s = group_of(set, g);
	if (!s) return -1;
	s->in += n;
	s->in_bytes += bytes;
	s->before += before * n;
	if (before > s->before_max) s->before_max = before;
	return 0;
}

static __always_inline void add_delay(struct sums *s, __u64 delay, __u32 bytes, __u32 n)
{
	s->left += n;
	s->left_bytes += bytes;
	s->total += delay * n;
	if (s->min1 == 0 || delay + 1 < s->min1) s->min1 = delay + 1;
	if (delay > s->max) s->max = delay;
	add_square(&s->square_low, &s->square_high, delay, n);
	__u32 b = bucket_of(delay);
	if (b < BUCKETS) s->buckets[b] += n;
}

/* ---- the way in ---- */

SEC("xdp.frags") int segment_xdp(struct xdp_md *x)
{
	if (bpf_xdp_adjust_meta(x, -(int)sizeof(__u64))) return XDP_PASS;
	__u64 *stamp = (void *)(long)x->data_meta;
	if ((void *)(stamp + 1) > (void *)(long)x->data) return XDP_PASS;
	*stamp = bpf_ktime_get_ns();
	return XDP_PASS;
}

SEC("tc") int segment_in(struct __sk_buff *s)
{
	__u64 now = bpf_ktime_get_ns(), stamp = now;
	__u64 *meta = (void *)(long)s->data_meta;
	if ((void *)(meta + 1) <= (void *)(long)s->data && *meta <= now && now - *meta < OLDEST_NS) stamp = *meta;
	if (bpf_skb_set_tstamp(s, stamp & ~QUEUED, BPF_SKB_TSTAMP_DELIVERY_MONO)) return TC_ACT_UNSPEC;
	__u32 index = s->ifindex, *ways = bpf_map_lookup_elem(&inputs, &index);
	if (!ways) return TC_ACT_UNSPEC;
	__u32 n = s->gso_segs ? s->gso_segs : 1;
	_Pragma("unroll") for (__u32 way = 0; way < MAX_WAYS; way++) {
		struct counts *c = *ways & (1 << way) ? counts_of(way) : NULL;
		if (!c) continue;
		c->arrived += n;
		c->merged += n - 1;
	}
	return TC_ACT_UNSPEC;
}

/* The way of a packet between these interfaces; -1: none. */
static __always_inline int way_of(__u32 in, __u32 out)
{
	__u32 wanted = 0;
	_Pragma("unroll") for (__u32 way = 0; way < MAX_WAYS; way++)
		if (config.output[way] != 0 && config.output[way] == out) wanted |= 1 << way;
	__u32 *ways = wanted ? bpf_map_lookup_elem(&inputs, &in) : NULL;
	if (!ways) return -1;
	wanted &= *ways;
	return wanted & 1 ? 0 : wanted & 2 ? 1 : wanted & 4 ? 2 : wanted & 8 ? 3 : -1;
}

static __always_inline int is_stamp(__u64 stamp, __u64 now) { return stamp != 0 && stamp <= now && now - stamp < OLDEST_NS; }

/* ---- at the output, before the queue ---- */

#define FETCH_SKB(at, into, n) bpf_skb_load_bytes_relative(s, at, into, n, BPF_HDR_START_NET)

static __always_inline void put(struct __sk_buff *s, __u32 way, __u64 stamp, __u64 departure, __u32 n, struct counts *c)
{
	__u32 length = s->len, take = length < SNAP ? length : SNAP;
	struct packet *p = departure ? bpf_ringbuf_reserve(&ring_left, sizeof *p, 0) : bpf_ringbuf_reserve(&ring_in, sizeof *p, 0);
	if (!p) {
		if (departure) c->ring_left++;
		else c->ring_in++;
		return;
	}
	p->arrival = stamp;
	p->departure = departure;
	p->length = length;
	p->segments = n;
	p->way = way;
	p->reserved = 0;
	p->vlan_proto = s->vlan_present ? s->vlan_proto : 0;
	p->vlan_tci = s->vlan_tci;
	if (length >= SNAP) take = bpf_skb_load_bytes(s, 0, p->frame, SNAP) ? 0 : SNAP;
	else if (take < 14 || take >= SNAP || bpf_skb_load_bytes(s, 0, p->frame, take)) take = 0;
	p->captured = take;
	bpf_ringbuf_submit(p, 0);
}

SEC("tc") int segment_out(struct __sk_buff *s)
{
	int way = way_of(s->ingress_ifindex, s->ifindex);
	if (way < 0) return TC_ACT_UNSPEC;
	struct counts *c = counts_of(way);
	if (!c) return TC_ACT_UNSPEC;
	__u64 now = bpf_ktime_get_ns(), stamp = s->tstamp;
	__u32 n = s->gso_segs ? s->gso_segs : 1, bytes = s->len;
	if (!is_stamp(stamp, now)) { c->unstamped += n; return TC_ACT_UNSPEC; }
	if (bpf_skb_set_tstamp(s, stamp | QUEUED, BPF_SKB_TSTAMP_DELIVERY_MONO)) return TC_ACT_UNSPEC;
	/* Of another hoptime perhaps, which sees the same packets. */
	stamp &= ~QUEUED;
	if (config.by_mark) {
		__u32 mark = s->mark, own = (__u32)stamp | QUEUED;
		if (mark != 0 && mark != own) {
			__u8 seen = 1;
			bpf_map_update_elem(&marks, &mark, &seen, BPF_ANY);
			c->marked += n;
			return TC_ACT_UNSPEC;
		}
		s->mark = own;
	}
	if (config.keep_packets) {
		/* At the tracepoint only what lies in one piece can be read. */
		bpf_skb_pull_data(s, s->len < SNAP ? s->len : SNAP);
		put(s, way, stamp, 0, n, c);
	}
	if (!config.keep_sums) return TC_ACT_UNSPEC;
	int set = set_of(stamp);
	if (set < 0) { c->late += n; return TC_ACT_UNSPEC; }
	struct flow f = { .way = way };
	PARSE(FETCH_SKB, &f);
	struct group all = { .way = way }, class = { .way = way, .kind = 1, .id = f.dscp };
	add_in(set, &all, now - stamp, bytes, n);
	if (add_in(set, &class, now - stamp, bytes, n)) c->no_group += n;
	struct flow_sums *fs = flow_of(set, &f);
	if (!fs) { c->no_flow += n; return TC_ACT_UNSPEC; }
	fs->in += n;
	fs->in_bytes += bytes;
	return TC_ACT_UNSPEC;
}

/* ---- behind the queue ---- */

#define FETCH_NET(at, into, n) bpf_probe_read_kernel(into, n, net + (at))

static __always_inline void put_left(struct sk_buff *s, __u32 way, __u64 stamp, __u64 now, __u32 n, struct counts *c)
{
	struct packet *p = bpf_ringbuf_reserve(&ring_left, sizeof *p, 0);
	if (!p) { c->ring_left++; return; }
	__u32 length = s->len, linear = length - s->data_len, take = linear < SNAP ? linear : SNAP;
	p->arrival = stamp;
	p->departure = now;
	p->length = length;
	p->segments = n;
	p->way = way;
	p->reserved = 0;
	p->vlan_proto = s->vlan_proto;
	p->vlan_tci = s->vlan_tci;
	p->captured = bpf_probe_read_kernel(p->frame, take <= SNAP ? take : SNAP, s->data) ? 0 : take;
	bpf_ringbuf_submit(p, 0);
}

static __always_inline __u32 segments_of(struct sk_buff *s)
{
	struct skb_shared_info *shared = (void *)(s->head + s->end);
	unsigned short n = BPF_CORE_READ(shared, gso_segs);
	return n ? n : 1;
}

static __always_inline void add_queue(int set, struct sk_buff *s, const struct net_device *dev, __u32 way, __u64 delay, __u32 bytes, __u32 n, struct counts *c)
{
	struct group g = { .way = way, .kind = 2, .id = s->queue_mapping };
	struct sums *q = group_of(set, &g);
	if (!q) { c->no_group += n; return; }
	add_delay(q, delay, bytes, n);
	struct netdev_queue *tx = (void *)dev->_tx;
	__u32 size = bpf_core_type_size(struct netdev_queue);
	struct Qdisc *qdisc = NULL;
	bpf_probe_read_kernel(&qdisc, sizeof qdisc, (void *)tx + (__u64)g.id * size + bpf_core_field_offset(struct netdev_queue, qdisc));
	if (!qdisc) return;
	q->queue = (__u64)BPF_CORE_READ(qdisc, handle) << 32 | BPF_CORE_READ(qdisc, parent);
	BPF_CORE_READ_INTO(&q->kind, qdisc, ops, id);
	__u64 backlog = BPF_CORE_READ(qdisc, qstats.backlog), length = BPF_CORE_READ(qdisc, q.qlen);
	if (backlog > q->backlog_max) q->backlog_max = backlog;
	if (length > q->length_max) q->length_max = length;
}

/* Counts a packet that has left, but for its queue. */
static __always_inline void add_left(int set, struct flow *f, __u64 delay, __u32 bytes, __u32 n)
{
	struct group all = { .way = f->way }, class = { .way = f->way, .kind = 1, .id = f->dscp };
	struct sums *sums = group_of(set, &all);
	if (sums) add_delay(sums, delay, bytes, n);
	sums = group_of(set, &class);
	if (sums) add_delay(sums, delay, bytes, n);
	struct flow_sums *fs = flow_of(set, f);
	if (!fs) return;
	fs->total += delay * n;
	if (fs->min1 == 0 || delay + 1 < fs->min1) fs->min1 = delay + 1;
	if (delay > fs->max) fs->max = delay;
	add_square(&fs->square_low, &fs->square_high, delay, n);
	if (fs->left > 0) {
		fs->jitter += delay > fs->last ? delay - fs->last : fs->last - delay;
		fs->steps++;
	}
	fs->left += n;
	fs->last = delay;
}

/* Tracepoints see the packets of all namespaces. */
static __always_inline int is_here(const struct net_device *dev)
{
	return BPF_CORE_READ(dev, nd_net.net, ns.inum) == config.netns;
}

SEC("tp_btf/net_dev_start_xmit") int BPF_PROG(segment_left, struct sk_buff *s, struct net_device *dev)
{
	__u64 now = bpf_ktime_get_ns();
	int way = way_of(s->skb_iif, dev->ifindex);
	if (way < 0) return 0;
	__u64 stamp = s->tstamp;
	if (!(stamp & QUEUED)) return 0;
	stamp &= ~QUEUED;
	if (!is_stamp(stamp, now) || !is_here(dev)) return 0;
	struct counts *c = counts_of(way);
	if (!c) return 0;
	__u32 n = segments_of(s), bytes = s->len;
	if (config.keep_packets) put_left(s, way, stamp, now, n, c);
	if (!config.keep_sums) return 0;
	int set = set_of(stamp);
	if (set < 0) { c->late += n; return 0; }
	struct flow f = { .way = way };
	unsigned char *net = s->head + s->network_header;
	PARSE(FETCH_NET, &f);
	add_queue(set, s, dev, way, now - stamp, bytes, n, c);
	add_left(set, &f, now - stamp, bytes, n);
	return 0;
}

#define OUTGOING 4 /* PACKET_OUTGOING */

SEC("socket") int segment_tap(struct __sk_buff *s)
{
	if (s->pkt_type != OUTGOING) return 0;
	__u64 now = bpf_ktime_get_ns();
	int way = way_of(s->ingress_ifindex, s->ifindex);
	__u32 mark = s->mark;
	if (way < 0 || !(mark & QUEUED) || bpf_map_lookup_elem(&marks, &mark)) return 0;
	struct counts *c = counts_of(way);
	if (!c) return 0;
	__u64 delay = (__u32)((__u32)now - (mark & ~(__u32)QUEUED)), stamp = now - delay;
	__u32 n = s->gso_segs ? s->gso_segs : 1, bytes = s->len;
	if (config.keep_packets) put(s, way, stamp, now, n, c);
	if (!config.keep_sums) return 0;
	int set = set_of(stamp);
	if (set < 0) { c->late += n; return 0; }
	struct flow f = { .way = way };
	PARSE(FETCH_SKB, &f);
	struct group g = { .way = way, .kind = 2, .id = s->queue_mapping };
	struct sums *q = group_of(set, &g);
	if (q) add_delay(q, delay, bytes, n);
	else c->no_group += n;
	add_left(set, &f, delay, bytes, n);
	return 0;
}

/* ---- dropped ---- */

SEC("tp_btf/kfree_skb") int BPF_PROG(segment_lost, struct sk_buff *s, void *location, int reason)
{
	__u32 in = s->skb_iif;
	__u32 *ways = bpf_map_lookup_elem(&inputs, &in);
	if (!ways) return 0;
	__u64 now = bpf_ktime_get_ns(), stamp = s->tstamp;
	struct net_device *dev = s->dev;
	if (!is_stamp(stamp, now) || !dev || !is_here(dev)) return 0;
	__u32 out = BPF_CORE_READ(dev, ifindex), n = segments_of(s);
	struct drop d = { .reason = reason < MAX_REASONS ? reason : 0, .place = !(stamp & QUEUED) };
	int way = way_of(in, out);
	if (d.place == 1 && way < 0) {
		/* Where it was dropped it belonged to the input: on its way to another output it is not ours. */
		__u32 *own = bpf_map_lookup_elem(&inputs, &out);
		if (!own || !(*own & *ways)) return 0;
		way = *ways & 1 ? 0 : *ways & 2 ? 1 : *ways & 4 ? 2 : 3;
	}
	if (way < 0) return 0;
	int set = d.place == 0 && config.keep_sums ? set_of(stamp & ~QUEUED) : -1;
	if (set >= 0) {
		struct group all = { .way = way }, queue = { .way = way, .kind = 2, .id = s->queue_mapping };
		struct sums *sums = group_of(set, &all);
		if (sums) sums->lost += n;
		sums = group_of(set, &queue);
		if (sums) sums->lost += n;
	}
	d.way = way;
	__u64 *have = bpf_map_lookup_elem(&drops, &d), one = n;
	if (have) *have += n;
	else bpf_map_update_elem(&drops, &d, &one, BPF_NOEXIST);
	return 0;
}

char _license[] SEC("license") = "GPL";
