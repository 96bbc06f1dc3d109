// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Measures on one host, without a second point, how long it takes to forward packets from one interface to another.
 *
 *   segment_xdp   XDP, ingress (if requested)      now -> XDP metadata
 *   segment_in    tc, ingress                      that time, or now -> skb->tstamp, as a delivery time on the monotonic clock
 *   segment_out   tc, egress of the output         the packet has reached the output: counted, before the qdisc
 *   segment_left  tp_btf net_dev_start_xmit        the packet goes to the driver, behind the qdisc: its delay is now - skb->tstamp
 *   segment_tap   socket filter, output            the same place, for kernels that restrict tracing; the time is in skb->mark
 *   segment_lost  tp_btf kfree_skb                 the packet was dropped, with the kernel's reason
 *
 * A delivery time stays with a packet while it is forwarded or bridged (the kernel clears all other timestamps there). It is copied to the segments
 * of a large packet, and removed when a packet is delivered to this host. It is in the past, which every queue except etf and taprio treats as "now".
 * The lowest bit of the time says that the packet has reached its output.
 *
 * Packet sockets see copies without the time. For them, segment_out puts its lower half into the mark, after routing and firewall, and only into
 * marks that are 0. The tracepoint needs no mark.
 *
 * At all hooks, a packet belongs to the epoch in which it arrived. Sets of maps alternate: the set of epoch e is e & 1. User space reads a set when
 * all its packets have left or are lost, and opens it for epoch e + 2. Packets whose set is not open are counted as late.
 */
#include "segment.h"
#include "flow.h"

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

/* ---- epochs ---- */

/* Returns the set of the stamp's epoch; -1 if it is not open. */
static __always_inline int set_of(__u64 stamp)
{
	if (stamp < config.epoch_base) return -1;
	__u64 epoch = (stamp - config.epoch_base) / config.epoch_length;
	__u32 set = epoch & 1;
	volatile __u64 *open = bpf_map_lookup_elem(&open_epochs, &set);
	return open && *open == epoch ? (int)set : -1;
}

static __always_inline struct class_sums *class_of(int set, __u32 way, __u32 dscp)
{
	__u32 index = ((set * config.cpus + bpf_get_smp_processor_id()) * MAX_WAYS + way) * CLASSES + dscp;
	return bpf_map_lookup_elem(&classes, &index);
}

static __always_inline struct group_sums *group_at(int set, __u32 slot)
{
	__u32 index = (set * config.cpus + bpf_get_smp_processor_id()) * config.groups + slot;
	return bpf_map_lookup_elem(&groups, &index);
}

/* Returns 1 + the slot of a class (place: its DSCP) or a queue (place: CLASSES + its number) of a path; 0 if all slots are in use. */
static __always_inline __u32 slot_of(__u32 set, __u32 way, __u32 place)
{
	struct slots *s = bpf_map_lookup_elem(&slots, &set);
	__u32 at = way * (CLASSES + QUEUES) + place;
	if (!s || at >= MAX_WAYS * (CLASSES + QUEUES)) return 0;
	__u32 slot = s->slot[at];
	if (slot) return slot;
	if (s->used >= config.groups) return 0;
	__u64 mine = __sync_fetch_and_add(&s->used, 1);
	if (mine >= config.groups) return 0;
	slot = __sync_val_compare_and_swap(&s->slot[at], 0, (__u32)mine + 1);
	return slot ? slot : mine + 1;
}

static __always_inline struct group_sums *queue_of(int set, __u32 way, __u32 number)
{
	__u32 slot = number < QUEUES ? slot_of(set, way, CLASSES + number) : 0;
	return slot ? group_at(set, slot - 1) : NULL;
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

static __always_inline void add_delay(struct delays *d, __u64 delay, __u32 bytes, __u32 n)
{
	d->left += n;
	d->left_bytes += bytes;
	d->total += delay * n;
	if (d->min1 == 0 || delay + 1 < d->min1) d->min1 = delay + 1;
	if (delay > d->max) d->max = delay;
	add_square(&d->square_low, &d->square_high, delay, n);
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
	__u32 index = s->ifindex, n = s->gso_segs ? s->gso_segs : 1;
	_Pragma("unroll") for (__u32 way = 0; way < MAX_WAYS; way++) {
		struct counts *c = config.output[way] != 0 && config.input[way] == index ? counts_of(way) : NULL;
		if (!c) continue;
		c->arrived += n;
		c->merged += n - 1;
	}
	return TC_ACT_UNSPEC;
}

/* Returns the path of a packet between these interfaces; -1: none. */
static __always_inline int way_of(__u32 in, __u32 out)
{
	__u32 wanted = 0;
	_Pragma("unroll") for (__u32 way = 0; way < MAX_WAYS; way++)
		if (config.output[way] != 0 && config.output[way] == out) {
			if (config.input[way] == in) return way;
			wanted |= 1 << way;
		}
	__u32 *ways = wanted ? bpf_map_lookup_elem(&inputs, &in) : NULL;
	if (!ways) return -1;
	wanted &= *ways;
	return wanted & 1 ? 0 : wanted & 2 ? 1 : wanted & 4 ? 2 : wanted & 8 ? 3 : -1;
}

static __always_inline int is_stamp(__u64 stamp, __u64 now) { return stamp != 0 && stamp <= now && now - stamp < OLDEST_NS; }

/* ---- at the output, before the queue ---- */

#define ETHERNET 14
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
	/* It may belong to another hoptime that sees the same packets. */
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
		/* At the tracepoint, only linear data can be read. */
		bpf_skb_pull_data(s, s->len < SNAP ? s->len : SNAP);
		put(s, way, stamp, 0, n, c);
	}
	if (!config.keep_sums) return TC_ACT_UNSPEC;
	int set = set_of(stamp);
	if (set < 0) { c->late += n; return TC_ACT_UNSPEC; }
	struct flow f = { .way = way };
	const __u8 *data = (void *)(long)s->data;
	if (!(s->protocol == bpf_htons(0x0800) && data + ETHERNET + PLAIN_BYTES <= (const __u8 *)(long)s->data_end && *(const __u16 *)(data + 12) == bpf_htons(0x0800) && plain_flow(data + ETHERNET, &f)))
		PARSE(FETCH_SKB, &f);
	struct class_sums *class = class_of(set, way, f.dscp & (CLASSES - 1));
	if (class) {
		__u64 before = now - stamp;
		class->in += n;
		class->in_bytes += bytes;
		class->before += before * n;
		if (before > class->before_max) class->before_max = before;
	}
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
	unsigned short n = AS(struct skb_shared_info, s->head + s->end)->gso_segs;
	return n ? n : 1;
}

/* Notes which qdisc the packet waited in, and how much still waits there. The name of the qdisc is read when it is new. */
static __always_inline void see_qdisc(struct group_sums *q, const struct net_device *dev, __u32 number)
{
	const void *tx = (const void *)dev->_tx + (__u64)number * bpf_core_type_size(struct netdev_queue);
	struct Qdisc *qdisc = AS(struct netdev_queue, tx)->qdisc;
	if (!qdisc) return;
	if (q->qdisc != (__u64)qdisc) {
		q->qdisc = (__u64)qdisc;
		q->queue = (__u64)qdisc->handle << 32 | qdisc->parent;
		BPF_CORE_READ_INTO(&q->kind, qdisc, ops, id);
	}
	__u64 backlog = qdisc->qstats.backlog, length = qdisc->q.qlen;
	if (backlog > q->backlog_max) q->backlog_max = backlog;
	if (length > q->length_max) q->length_max = length;
}

/* Counts a packet that has left. */
static __always_inline void add_left(int set, struct flow *f, struct group_sums *queue, __u64 delay, __u32 bytes, __u32 n, struct counts *c)
{
	__u32 bucket = bucket_of(delay), dscp = f->dscp & (CLASSES - 1), slot = slot_of(set, f->way, dscp);
	struct class_sums *class = class_of(set, f->way, dscp);
	struct group_sums *own = group_at(set, slot ? slot - 1 : f->way);
	if (class) add_delay(&class->delays, delay, bytes, n);
	if (own && bucket < BUCKETS) own->buckets[bucket] += n;
	if (queue) {
		add_delay(&queue->delays, delay, bytes, n);
		if (bucket < BUCKETS) queue->buckets[bucket] += n;
	}
	if (!slot || !queue) c->no_group += n;
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

/* Tracepoints see the packets of all network namespaces. */
static __always_inline int is_here(const struct net_device *dev)
{
	return dev->nd_net.net->ns.inum == config.netns;
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
	if (!plain_flow_at(net, &f)) PARSE(FETCH_NET, &f);
	struct group_sums *queue = queue_of(set, way, s->queue_mapping);
	if (queue) see_qdisc(queue, dev, s->queue_mapping);
	add_left(set, &f, queue, now - stamp, bytes, n, c);
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
	__u8 head[PLAIN_BYTES];
	if (FETCH_SKB(0, head, PLAIN_BYTES) || !plain_flow(head, &f)) PARSE(FETCH_SKB, &f);
	add_left(set, &f, queue_of(set, way, s->queue_mapping), delay, bytes, n, c);
	return 0;
}

/* ---- dropped ---- */

/* Returns the paths of packets that arrived on an interface, as bits. */
static __always_inline __u32 ways_from(__u32 in)
{
	__u32 ways = 0, *upper;
	_Pragma("unroll") for (__u32 way = 0; way < MAX_WAYS; way++)
		if (config.output[way] != 0 && config.input[way] == in) ways |= 1 << way;
	if (ways) return ways;
	upper = bpf_map_lookup_elem(&inputs, &in);
	return upper ? *upper : 0;
}

static __always_inline void add_drop(const struct drop *d, __u64 n)
{
	__u64 *have = bpf_map_lookup_elem(&drops, d);
	if (have) *have += n;
	else bpf_map_update_elem(&drops, d, &n, BPF_NOEXIST);
}

/*
 * Returns whether a dropped packet is a segment of a large one that was counted before. A queue that cuts a large packet into its segments (tbf) and has no
 * room for any of them frees the large packet and then each segment. The drop was counted with the large packet; the segments only give the reason.
 */
static __always_inline int is_part(const struct drop *d, __u64 stamp, __u32 n)
{
	__u32 zero = 0;
	struct whole *w = bpf_map_lookup_elem(&wholes, &zero);
	if (!w) return 0;
	if (n > 1) {
		w->stamp = stamp;
		w->drop = *d;
		w->left = n;
		return 0;
	}
	if (w->left == 0 || w->stamp != stamp) return 0;
	struct drop whole = w->drop;
	w->left--;
	add_drop(&whole, -1ULL);
	add_drop(d, 1);
	return 1;
}

SEC("tp_btf/kfree_skb") int BPF_PROG(segment_lost, struct sk_buff *s, void *location, int reason)
{
	__u64 stamp = s->tstamp;
	__u32 in = s->skb_iif, ways = stamp ? ways_from(in) : 0;
	if (!ways) return 0;
	struct net_device *dev = s->dev;
	if (!is_stamp(stamp, bpf_ktime_get_ns()) || !dev || !is_here(dev)) return 0;
	__u32 out = dev->ifindex, n = segments_of(s);
	struct drop d = { .reason = reason < MAX_REASONS ? reason : 0, .place = !(stamp & QUEUED) };
	int way = way_of(in, out);
	if (d.place == 1 && way < 0) {
		/* Its interface must still be the input's: a packet on its way to another output belongs to no path. */
		if (!(ways_from(out) & ways)) return 0;
		way = ways & 1 ? 0 : ways & 2 ? 1 : ways & 4 ? 2 : 3;
	}
	if (way < 0) return 0;
	d.way = way;
	stamp &= ~QUEUED;
	if (d.place == 0 && is_part(&d, stamp, n)) return 0;
	int set = d.place == 0 && config.keep_sums ? set_of(stamp) : -1;
	if (set >= 0) {
		__u32 key = set;
		struct slots *sums = bpf_map_lookup_elem(&slots, &key);
		struct group_sums *queue = queue_of(set, way, s->queue_mapping);
		if (sums) __sync_fetch_and_add(&sums->lost[way & (MAX_WAYS - 1)], n);
		if (queue) queue->lost += n;
	}
	add_drop(&d, n);
	return 0;
}

char _license[] SEC("license") = "GPL";
