// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * Sketches of every packet, in the kernel: LDA, LDS, COLATE and a flow table, at XDP, tc ingress and egress, and a packet socket. The programs only read
 * packets: none is dropped, changed or delayed.
 *
 * Each CPU has its own cells, in several sets: while one set is read, packets go to the next. There are no locks. The set of a packet follows from its time
 * (aligned epochs: user space sets the time windows in advance), or from the packets themselves (delimited epochs).
 */
#include "observe.h"
#include "plain.h"

#ifdef KERNEL_TYPES
#include <bpf/bpf_core_read.h>
enum xdp_buff_flags { XDP_FLAGS_HAS_FRAGS = 1 };
struct xdp_buff {
	__u32 flags;
} __attribute__((preserve_access_index));
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym;
#endif

SEC(".rodata.config") const volatile struct config config = {};

#define SHARED(name, of, count)                         \
	struct {                                        \
		__uint(type, BPF_MAP_TYPE_ARRAY);       \
		__uint(map_flags, BPF_F_MMAPABLE);      \
		__uint(max_entries, count);             \
		__type(key, __u32);                     \
		__type(value, of);                      \
	} name SEC(".maps")

/* A separate section becomes a separate map at a fixed address. */
SEC(".data.control") struct control control = {};

struct seeds {
	__u64 flow, packet;
};
struct slot {
	__u64 seed;
	__u32 first, cells;
};

SHARED(counts, struct counts, 1);
SHARED(cells, struct cell, 1);
SHARED(lds_seeds, struct seeds, MAX_SETS *MAX_ROWS);
SHARED(colate_slots, struct slot, 1);
SHARED(last, struct last, 1);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

static __always_inline __u64 fold(__u64 h)
{
	return h ^ (h >> 30);
}
/* The finaliser of splitmix64, as in kernels/sketches/lds.ts. */
static __always_inline __u64 mix(__u64 h)
{
	h = fold(h) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return h ^ (h >> 31);
}

static __always_inline __u32 add(__u32 index, __u64 digest, __s64 time)
{
	struct cell *cell = bpf_map_lookup_elem(&cells, &index);
	__u64 word;

	if (!cell)
		return 0;
	cell->sum += time;
	word = (cell->count_digest + 1) ^ (digest << 32);
	cell->count_digest = word;
	return (__u32)word;
}

static __always_inline void update_lda(__u32 base, __u64 digest, __s64 time)
{
	__u64 h = rehash(digest, config.lda_seed), g = h >> 32, bank = 0;

	if (g >= config.lda_limit)
		return;
	for (int i = 0; i < MAX_BANKS; i++) {
		if (i >= config.lda_banks)
			break;
		bank += (g - config.lda_from[i]) >> 63; /* 1 if g is smaller; a branch would often be mispredicted */
	}
	add(base + config.lda_at + bank * config.lda_rows + (((h & 0xffffffff) * config.lda_rows) >> 32), digest, time);
}

static __always_inline void update_lds(__u32 base, __u32 set, __u64 digest, __u64 hash, __s64 time)
{
	__u64 columns = config.lds_columns;

	for (__u32 i = 0; i < MAX_ROWS; i++) {
		struct seeds *seeds;
		__u32 key = set * MAX_ROWS + i;
		__u64 within, column;

		if (i >= config.lds_rows)
			break;
		seeds = bpf_map_lookup_elem(&lds_seeds, &key);
		if (!seeds)
			break;
		within = mix(digest ^ seeds->packet);
		if ((within & 0xffffffff) >= config.lds_threshold[i])
			continue;
		column = ((mix(hash ^ seeds->flow) >> 32) * columns) >> 32;
		column += ((within >> 32) * config.lds_k) >> 32;
		if (column >= columns)
			column -= columns;
		add(base + config.lds_at + i * config.lds_columns + column, digest, time);
	}
}

static __always_inline void update_colate(__u32 base, __u32 set, __u64 digest, __u64 hash, __s64 time,
					  struct counts *n)
{
	__u64 x = ((digest * config.colate_multiplier) >> 32) * config.colate_m, v = 0;
	struct slot *slot;
	__u32 key, fullest;

	for (int i = 0; i < MAX_VECTORS; i++) {
		if (i + 1 >= config.colate_vectors)
			break;
		v += 1 - (((x & 0xffffffff) - config.colate_edge[i]) >> 63);
	}
	key = (set * config.colate_vectors + v) * config.colate_m + (x >> 32);
	slot = bpf_map_lookup_elem(&colate_slots, &key);
	if (!slot)
		return;
	key = slot->first + (((rehash(hash, slot->seed) >> 32) * slot->cells) >> 32);
	fullest = add(base + config.colate_at + key, digest, time >> config.colate_shift);
	if (fullest > n->fullest)
		n->fullest = fullest;
}

/* The table is full: from now on, flows with this hash or a larger one are only counted. If two CPUs do this at the same time, the smaller hash applies. */
static __always_inline void cut_flows(struct window *w, __u64 hash)
{
	for (int i = 0; i < 8; i++) {
		__u64 cut = w->flow_cut;

		if (cut != 0 && cut <= hash)
			return;
		if (__sync_val_compare_and_swap(&w->flow_cut, cut, hash) == cut)
			return;
	}
}

static __always_inline void update_flows(struct window *w, __u32 set, struct row *r, __u64 hash, struct counts *n)
{
	struct flow_key key = {};
	struct flow *flow;

	if (hash >= w->flow_cut && w->flow_cut != 0)
		goto shed;
	key.meta = r->meta | ((__u64)set << SET_SHIFT);
	key.a = r->a;
	if (r->meta & META_IPV6) {
		key.b = r->b;
		key.c = r->c;
		key.d = r->d;
	}
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow) {
		struct flow fresh = { .hash = hash };

		n->new_flows++;
		bpf_map_update_elem(&flows, &key, &fresh, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&flows, &key);
		if (!flow) {
			cut_flows(w, hash);
			goto shed;
		}
	}
	__sync_fetch_and_add(&flow->packets, 1);
	__sync_fetch_and_add(&flow->bytes, r->wire);
	return;
shed:
	n->shed_packets++;
	n->shed_bytes += r->wire;
}

/* Masks and hashes the key, as keyFlows in kernels/decode/digest.ts. */
static __always_inline __u64 key_flow(struct row *r)
{
	__u64 h;

	if (!(r->meta & META_IPV6)) {
		r->meta &= config.mask[0];
		r->a &= config.mask[1];
		return avalanche(mix_word(mix_word(config.seed + P5, r->meta), r->a));
	}
	r->meta &= config.mask[2];
	r->a &= config.mask[3];
	r->b &= config.mask[4];
	r->c &= config.mask[5];
	r->d &= config.mask[6];
	h = mix_word(mix_word(config.seed + P5, r->meta), r->a);
	if (r->meta & META_IPV6)
		h = mix_word(mix_word(mix_word(h, r->b), r->c), r->d);
	return avalanche(h);
}

/* A global function, so that it is verified once. The steps are constants. */
__attribute__((noinline)) int passes(struct row *r)
{
	__u32 stack = 0;

	if (!r)
		return 0;
	for (int i = 0; i < MAX_FILTER; i++) {
		const volatile struct step *q = &config.filter[i];

		if (i >= config.steps)
			break;
		if (q->question == NEGATE)
			stack ^= 1;
		else if (q->question == JOIN_AND)
			stack = (stack >> 1) & (~1U | stack);
		else if (q->question == JOIN_OR)
			stack = (stack >> 1) | (stack & 1);
		else
			stack = (stack << 1) | (answer(r, q) & 1);
	}
	return stack & 1;
}

/* Returns the set of a time by the windows set in advance; MAX_SETS: none. */
static __always_inline __u32 set_at(struct control *c, __u64 now)
{
	__u32 current = c->current;

	for (__u32 i = 0; i < MAX_SETS; i++) {
		__u32 set = (current + i) & (config.sets - 1) & (MAX_SETS - 1);
		struct window *w = &c->window[set];

		if (i >= config.sets)
			break;
		if (now < w->start || now >= w->end)
			continue;
		/* All CPUs get the same result. */
		if (i == 1)
			c->current = set;
		return set;
	}
	return MAX_SETS;
}

/* Starts a new epoch at a delimiter, or at the time that is due, if a set is free. */
static __always_inline __u32 set_delimited(struct control *c, __u64 now, __u64 digest, struct counts **n, __u32 cpu)
{
	__u64 epoch = c->current, due = c->due;
	int clock = now >= due;

	if (clock || (__u32)(digest >> 32) < config.below) {
		if (epoch + 1 - c->drained < config.sets) {
			__u32 next = (epoch + 1) & (config.sets - 1) & (MAX_SETS - 1);
			struct window *w = &c->window[next];

			w->offset = c->offset;
			if (__sync_val_compare_and_swap(&c->current, epoch, epoch + 1) == epoch) {
				w->start = clock ? due : now;
				w->id = clock ? 0 : digest;
				if (clock)
					c->due = ~0ULL;
			}
			epoch++;
		} else if (*n) {
			(*n)->missed++;
		}
	}
	return epoch & (config.sets - 1) & (MAX_SETS - 1);
}

#define GRID_MASK ((1ULL << 36) - 1)

static __always_inline struct counts *counts_of(__u32 cpu, __u32 set)
{
	__u32 key = cpu * config.sets + set;

	return bpf_map_lookup_elem(&counts, &key);
}

/* Adds a packet with its row, or counts the reason why it has none. */
static __always_inline void observe(struct row *r, int reason, __u32 wire, int merged, __u64 now)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id(), set, base;
	struct control *c = &control;
	struct counts *n;
	struct window *w;
	__u64 hash = 0;
	__s64 time;
	int passed = 1;

	r->wire = wire;
	if (reason == OK && config.steps)
		passed = passes(r);
	if (config.delimited) {
		n = counts_of(cpu, c->current & (config.sets - 1));
		set = reason == OK && passed ? set_delimited(c, now, r->digest, &n, cpu) :
					       c->current & (config.sets - 1) & (MAX_SETS - 1);
	} else {
		set = set_at(c, now);
		if (set >= MAX_SETS) {
			n = counts_of(cpu, 0);
			if (n)
				n->lost++;
			return;
		}
	}
	n = counts_of(cpu, set);
	if (!n)
		return;
	n->bytes += wire;
	if (merged)
		n->merged++;
	if (reason == OK && passed && (config.hashes || config.keep_last))
		hash = key_flow(r);
	if (config.keep_last) {
		struct last *l = bpf_map_lookup_elem(&last, &zero);

		if (l) {
			l->row = *r;
			l->flow_hash = hash;
			l->now = now;
			l->reason = reason;
			l->passed = passed;
		}
	}
	if (reason != OK) {
		n->skipped[reason & 7]++;
		return;
	}
	if (!passed) {
		n->filtered++;
		return;
	}
	w = &c->window[set & (MAX_SETS - 1)];
	/* The first packet on any CPU sets the base. */
	if (config.delimited && w->base == 0)
		__sync_val_compare_and_swap(&w->base, 0, ((now + w->offset) & ~GRID_MASK) - w->offset);
	time = now - w->base;
	if (n->first == 0)
		n->first = now;
	n->last = now;
	n->packets++;
	if (r->flags & FLAG_SHORT)
		n->shorts++;
	base = (cpu * config.sets + set) * config.cells;
	if (config.lda_banks)
		update_lda(base, r->digest, time);
	if (config.lds_rows)
		update_lds(base, set, r->digest, hash, time);
	if (config.colate_vectors)
		update_colate(base, set, r->digest, hash, time, n);
	if (config.flows)
		update_flows(w, set, r, hash, n);
}

static __always_inline int is_plain_cover(void)
{
	return config.cover == PLAIN_COVER && !config.network;
}

/* Returns whether more than the digest of a packet is needed. These are constants, so the verifier removes unused code. */
static __always_inline int is_keyed(void)
{
	return config.hashes || config.steps || config.keep_last;
}

/* Returns the number of bytes of the frame to copy. Callers check for 0, for which the helper fails. */
static __always_inline __u32 copied(__u32 length)
{
	return length < config.copy ? length : config.copy;
}

/* Limits the copy to the buffer. The asm keeps the bounds check in the code, because the verifier needs it even if the compiler does not. */
static __always_inline __u64 copied_at_most(__u32 length)
{
	__u64 bytes = length;

	asm volatile("" : "+r"(bytes));
	return bytes < FRAME_BYTES ? bytes : FRAME_BYTES;
}

/* The helper is a call that only frames in several buffers need. Without the kernel's types (observe.bpf.o), the program cannot distinguish these frames. */
static __always_inline __u32 frame_bytes(struct xdp_md *ctx)
{
#ifdef KERNEL_TYPES
	struct xdp_buff *buff = bpf_cast_to_kern_ctx(ctx);

	if (!(buff->flags & bpf_core_enum_value(enum xdp_buff_flags, XDP_FLAGS_HAS_FRAGS)))
		return ctx->data_end - ctx->data;
#endif
	return bpf_xdp_get_buff_len(ctx);
}

SEC("xdp.frags") int observe_xdp(struct xdp_md *ctx)
{
	const __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 wire = frame_bytes(ctx);
	struct row row = {};
	struct scratch *s;
	__u64 bytes, now;
	int reason;

	/* The clock read waits for the instructions before it, but is issued while they run, so part of the digest's cost is hidden. */
	if (is_plain_cover() && decode_plain(data, end, &row, config.seed, 0, is_keyed())) {
		row.flags |= FLAG_INBOUND;
		observe(&row, OK, wire, wire > control.longest, bpf_ktime_get_ns());
		return XDP_PASS;
	}
	now = bpf_ktime_get_ns();
	s = scratch_of();
	bytes = copied(wire);
	if (!s || bytes == 0 || bytes > FRAME_BYTES)
		return XDP_PASS;
	if (bpf_xdp_load_bytes(ctx, 0, s->bytes, bytes))
		return XDP_PASS;
	s->end = bytes;
	s->vlan = 0;
	reason = decode(s, &row, wire, config.cover, config.seed, config.network);
	if (s->deep && bytes < wire) {
		bytes = copied_at_most(wire);
		if (bytes == 0 || bpf_xdp_load_bytes(ctx, 0, s->bytes, bytes))
			return XDP_PASS;
		s->end = bytes;
		s->vlan = 0;
		reason = decode(s, &row, wire, config.cover, config.seed, config.network);
	}
	row.flags |= FLAG_INBOUND;
	observe(&row, reason, wire, wire > control.longest, now);
	return XDP_PASS;
}

static __always_inline void observe_skb(struct __sk_buff *skb, int direct, __u32 way)
{
	__u64 now = bpf_ktime_get_ns(), vlan = 0, bytes;
	__u32 length = skb->len, tag = 0;
	struct row row = {};
	struct scratch *s;
	int reason, merged = skb->gso_segs > 1 || length > control.longest;

	if (skb->vlan_present && !config.network) {
		vlan = META_VLAN | ((__u64)(skb->vlan_tci & 0xfff) << 46);
		tag = 4;
	}
	if (direct && is_plain_cover() &&
	    decode_plain((void *)(long)skb->data, (void *)(long)skb->data_end, &row, config.seed, vlan,
			 is_keyed())) {
		row.flags |= way;
		return observe(&row, OK, length + tag, merged, now);
	}
	s = scratch_of();
	bytes = copied(length);
	if (!s || bytes == 0 || bytes > FRAME_BYTES)
		return;
	if (bpf_skb_load_bytes(skb, 0, s->bytes, bytes))
		return;
	s->end = bytes;
	s->vlan = vlan;
	reason = decode(s, &row, length, config.cover, config.seed, config.network);
	if (s->deep && bytes < length) {
		bytes = copied_at_most(length);
		if (bytes == 0 || bpf_skb_load_bytes(skb, 0, s->bytes, bytes))
			return;
		s->end = bytes;
		s->vlan = vlan;
		reason = decode(s, &row, length, config.cover, config.seed, config.network);
	}
	row.flags |= way;
	observe(&row, reason, length + tag, merged, now);
}

/* -1: the next program or the stack decides. */
SEC("tc") int observe_ingress(struct __sk_buff *skb)
{
	observe_skb(skb, 1, FLAG_INBOUND);
	return -1;
}

SEC("tc") int observe_egress(struct __sk_buff *skb)
{
	observe_skb(skb, 1, FLAG_OUTBOUND);
	return -1;
}

/* 0: no copy is kept for the socket. */
SEC("socket") int observe_socket(struct __sk_buff *skb)
{
	__u32 sent = skb->pkt_type == 4; /* PACKET_OUTGOING */

	if (config.direction == 0 || config.direction == sent + 1)
		observe_skb(skb, 0, sent ? FLAG_OUTBOUND : FLAG_INBOUND);
	return 0;
}

/* bpf_ktime_get_ns requires the GPL, one of the two licences. */
char _license[] SEC("license") = "GPL";
