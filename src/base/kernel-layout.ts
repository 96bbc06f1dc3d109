/** Where the fields of the kernels' records lie, in bytes, and the kernels' constants. Made by scripts/kernel-layout.mjs; not to be edited. */
/** Batch of kernels/decode/batch.ts. */
export const BatchLayout = {
  capacity: 0,
  count: 4,
  time: 8,
  digest: 12,
  flowHash: 16,
  meta: 20,
  addrA: 24,
  addrB: 28,
  addrC: 32,
  addrD: 36,
  wireLength: 40,
  ipid: 44,
  flags: 48,
  header: 52,
  captured: 56,
  iface: 60,
  delay: 64,
  select: 68,
  shorts: 72,
  frame: 76,
  lean: 80,
} as const;
export const BatchBytes = 84;

/** Constants of kernels/decode/batch.ts. */
export const batchConstants = {
  META_PROTO: 1095216660480n,
  META_DSCP: 69269232549888n,
  META_VLAN_ID: 288160007407534080n,
  META_VLAN: 288230376151711744n,
  META_IPV6: 576460752303423488n,
  META_PORTS: 1152921504606846976n,
  FLAG_FRAGMENT: 65536,
  FLAG_LATER_FRAGMENT: 131072,
  FLAG_SHORT: 262144,
  FLAG_INNER: 524288,
  FLAG_IPID: 1048576,
  FLAG_CUT_L4: 2097152,
  FLAG_REFERENCE: 4194304,
  FLAG_PROBE: 8388608,
  FLAG_INBOUND: 67108864,
  FLAG_OUTBOUND: 134217728,
  FLAG_LINK_LOCAL: 16777216,
  FLAG_VERIFIED: 33554432,
  PLANES: 8,
} as const;

/** Cursor of kernels/decode/cursor.ts. */
export const CursorLayout = {
  pos: 0,
  limit: 4,
  wanted: 8,
  swapped: 12,
  nano: 16,
  link: 20,
  recordHeader: 24,
  fcs: 28,
  cover: 32,
  special: 36,
  interfaces: 40,
  interfaceCount: 44,
  interfaceBase: 48,
  started: 52,
  origin: 56,
  seed: 64,
  packets: 72,
  bytes: 80,
  drops: 88,
  dropsKnown: 96,
  left: 100,
  maxTime: 104,
  merged: 112,
  hardware: 120,
  longest: 128,
  hardwareOnly: 132,
} as const;
export const CursorBytes = 136;

/** Constants of kernels/decode/cursor.ts. */
export const cursorConstants = {
  NEED_DATA: 0,
  BATCH_FULL: 1,
  SPECIAL: 2,
  BAD_LENGTH: 3,
  BAD_TRAILER: 4,
  SPECIAL_INNER: 1,
  SPECIAL_NAT: 2,
} as const;

/** Constants of kernels/decode/digest.ts. */
export const digestConstants = {
  P1: 11400714785074694791n,
  P2: 14029467366897019727n,
  P3: 1609587929392839161n,
  P4: 9650029242287828579n,
  P5: 2870177450012600261n,
} as const;

/** WordQuestion of kernels/decode/filter.ts. */
export const WordQuestionLayout = {
  needMask: 0,
  needValue: 8,
  shift: 16,
  mask: 20,
  low: 24,
  high: 28,
  outside: 32,
} as const;
export const WordQuestionBytes = 36;

/** Constants of kernels/decode/filter.ts. */
export const filterConstants = {
  ENDS_SOURCE: 10,
  ENDS_DESTINATION: 12,
  ENDS_EITHER: 14,
  ENDS_BOTH: 8,
} as const;

/** Constants of kernels/decode/link.ts. */
export const linkConstants = {
  OK: 0,
  NOT_IP: 1,
  CUT_LINK: 2,
  CUT_IP: 3,
  BAD_IP: 4,
  UNKNOWN_LINK: 5,
  TOO_DEEP: 6,
  NO_TIME: 7,
  NO_INTERFACE: 8,
  MAX_NESTING: 16,
} as const;

/** Neighbours of kernels/decode/neighbours.ts. */
export const NeighboursLayout = {
  previous: 0,
  close: 8,
  large: 16,
  equals: 24,
  closes: 32,
  run: 40,
  longest: 48,
  wasEqual: 56,
  wasClose: 64,
} as const;
export const NeighboursBytes = 72;

/** Constants of kernels/decode/origin.ts. */
export const originConstants = {
  MAX_TIMESTAMPS: 1024,
} as const;

/** Constants of kernels/decode/ring-packet.ts. */
export const ringPacketConstants = {
  TAG_VALID: 16,
  TAG_TYPE_VALID: 64,
  SEGMENTS: 256,
  HARDWARE: 2147483648,
  HEADER_BYTES: 68,
  TAG_BYTES: 4,
} as const;

/** Constants of kernels/decode/row-plain.ts. */
export const rowPlainConstants = {
  TYPE_IPV4: 4521992,
} as const;

/** Interface of kernels/decode/walk.ts. */
export const InterfaceLayout = {
  link: 0,
  kind: 4,
  scale: 8,
  offset: 16,
  maxTicks: 24,
} as const;
export const InterfaceBytes = 32;

/** Constants of kernels/decode/walk.ts. */
export const walkConstants = {
  SHORT_SIZES: 1536,
} as const;

/** Constants of kernels/decode/walk-plain-pcap.ts. */
export const walkPlainPcapConstants = {
  PLAIN_RECORD: 16,
} as const;

/** Constants of kernels/decode/walk-ring.ts. */
export const walkRingConstants = {
  RING_ETHERNET: 1,
  RING_NETWORK: 101,
} as const;

/** Constants of kernels/flows/flow-index.ts. */
export const flowIndexConstants = {
  TOUCHED_AT_ONCE: 64,
} as const;

/** Constants of kernels/flows/flow-lists.ts. */
export const flowListsConstants = {
  LONGEST_LIST: 2048,
  BUCKET_BIAS: 8192,
} as const;

/** Flow of kernels/flows/flow-records.ts. */
export const FlowLayout = {
  sent: 0,
  received: 4,
  matched: 8,
  more: 12,
  meta: 16,
  addrA: 24,
  bytes: 32,
  first: 40,
  last: 48,
  nextOrder: 56,
  wide: 60,
} as const;
export const FlowBytes = 64;

/** FlowMore of kernels/flows/flow-records.ts. */
export const FlowMoreLayout = {
  squares: 0,
  minimum: 8,
  maximum: 16,
  sum: 24,
  jitter: 32,
  list: 40,
  listState: 44,
  negative: 48,
  faults: 52,
  lastPair: 56,
  apart: 60,
} as const;
export const FlowMoreBytes = 64;

/** FlowFaults of kernels/flows/flow-records.ts. */
export const FlowFaultsLayout = {
  lost: 0,
  appeared: 4,
  duplicates: 8,
  headBefore: 12,
  tailBefore: 16,
  headAfter: 20,
  tailAfter: 24,
  reordered: 28,
  ambiguous: 32,
  linkLocal: 36,
  mirrored: 40,
  merged: 44,
  undecided: 48,
  pad: 52,
} as const;
export const FlowFaultsBytes = 56;

/** FlowStats of kernels/flows/flow-records.ts. */
export const FlowStatsLayout = {
  flows: 0,
  faults: 4,
  wide: 8,
  none: 12,
  cells: 16,
  slab: 20,
  slabUsed: 24,
  free0: 28,
  free1: 32,
  free2: 36,
  free3: 40,
  index: 44,
  indexBits: 48,
  touched: 52,
  counts: 56,
  journal: 60,
  noted: 64,
  piece: 68,
  seed: 72,
  base: 80,
} as const;
export const FlowStatsBytes = 88;

/** Constants of kernels/flows/flow-records.ts. */
export const flowRecordsConstants = {
  SECOND: 1,
  FAULTY: 536870912,
  DIRECTION_SHIFT: 30,
  WIDE: 24,
  JOURNAL_PIECES: 64,
} as const;

/** FlowSums of kernels/flows/flow-sums.ts. */
export const FlowSumsLayout = {
  sent: 0,
  received: 8,
  matched: 16,
  lost: 24,
  appeared: 32,
  duplicates: 40,
  headBefore: 48,
  tailBefore: 56,
  headAfter: 64,
  tailAfter: 72,
  matchedHeadBefore: 80,
  matchedTailBefore: 88,
  matchedHeadAfter: 96,
  matchedTailAfter: 104,
  ambiguous: 112,
  linkLocal: 120,
  mirrored: 128,
  merged: 136,
  undecided: 144,
} as const;
export const FlowSumsBytes = 152;

/** Constants of kernels/flows/flow-sums.ts. */
export const flowSumsConstants = {
  BY_PACKETS: 0,
  BY_BYTES: 1,
  BY_MEAN: 2,
  BY_MAX: 3,
  BY_LOST: 4,
  EDGE_HEAD_BEFORE: 1,
  EDGE_TAIL_BEFORE: 2,
  EDGE_HEAD_AFTER: 4,
  EDGE_TAIL_AFTER: 8,
} as const;

/** Flows of kernels/flows/flows.ts. */
export const FlowsLayout = {
  count: 0,
  recordBytes: 4,
  segments: 8,
  index: 12,
  indexMask: 16,
  touched: 20,
} as const;
export const FlowsBytes = 24;

/** Constants of kernels/flows/flows.ts. */
export const flowsConstants = {
  FLOW_HEAD: 48,
} as const;

/** HeavyFlows of kernels/flows/heavy-flows.ts. */
export const HeavyFlowsLayout = {
  count: 0,
  max: 4,
  records: 8,
  index: 12,
  mask: 16,
  floor: 24,
} as const;
export const HeavyFlowsBytes = 32;

/** Constants of kernels/flows/heavy-flows.ts. */
export const heavyFlowsConstants = {
  RECORD: 72,
  PACKETS: 48,
  BYTES: 56,
  MISSED: 64,
} as const;

/** Constants of kernels/flows/key-runs.ts. */
export const keyRunsConstants = {
  RUNS_HEAD: 16,
  RUN: 32,
  WIDE_RUN: 24,
  ROW_KEY: 16,
  KEY_PER_ROW: 1073741824,
} as const;

/** Table of kernels/flows/tables.ts. */
export const TableLayout = {
  count: 0,
  room: 4,
  bytes: 8,
  segments: 12,
  blocks: 16,
} as const;
export const TableBytes = 20;

/** Constants of kernels/flows/tables.ts. */
export const tablesConstants = {
  SEGMENT: 16384,
} as const;

/** Asked of kernels/maple/asked.ts. */
export const AskedLayout = {
  keys: 0,
  count: 4,
  out: 8,
  counts: 12,
} as const;
export const AskedBytes = 16;

/** Buffer of kernels/maple/buffer.ts. */
export const BufferLayout = {
  capacity: 0,
  count: 4,
  seen: 8,
  unknown: 12,
  shed: 16,
  unlisted: 20,
  digest: 24,
  flow: 28,
  delay: 32,
  ipid: 36,
  flowId: 40,
  flows: 44,
  flowLimit: 48,
  keep: 52,
  perByte: 56,
  bytes: 64,
  sum: 72,
  squares: 80,
  carry: 88,
  minimum: 96,
  maximum: 104,
  base: 112,
  begun: 120,
  closed: 124,
} as const;
export const BufferBytes = 128;

/** Constants of kernels/maple/buffer.ts. */
export const bufferConstants = {
  NO_FLOW: 4294967295,
} as const;

/** Constants of kernels/maple/flow-delays.ts. */
export const flowDelaysConstants = {
  PRINT_BITS: 13,
} as const;

/** Constants of kernels/maple/packet-times.ts. */
export const packetTimesConstants = {
  METAMAKO: 1,
  EXABLAZE: 2,
  ARISTA: 3,
} as const;

/** Constants of kernels/maple/svbf.ts. */
export const svbfConstants = {
  KIND_MATCH: 65536,
  KIND_MULTI: 131072,
} as const;

/** DelayBlock of kernels/match/delay-blocks.ts. */
export const DelayBlockLayout = {
  matched: 0,
  others: 4,
  from: 8,
  first: 16,
  sum: 24,
  squares: 32,
  minimum: 40,
  maximum: 48,
  low: 56,
  high: 64,
  otherLow: 72,
  otherHigh: 80,
} as const;
export const DelayBlockBytes = 88;

/** EdgeSample of kernels/match/edge-sample.ts. */
export const EdgeSampleLayout = {
  first: 0,
  firstCount: 4,
  firstStep: 8,
  firstSkip: 12,
  firstUntil: 16,
  last: 24,
  lastCount: 28,
  lastSkip: 32,
  seen: 36,
  pad: 40,
} as const;
export const EdgeSampleBytes = 44;

/** Constants of kernels/match/edge-sample.ts. */
export const edgeSampleConstants = {
  NEAR: 64,
  ENOUGH: 8,
  RESOLUTION: 2000,
} as const;

/** EnvelopeBuckets of kernels/match/envelope-buckets.ts. */
export const EnvelopeBucketsLayout = {
  low: 0,
  high: 8,
  width: 16,
  slope: 24,
} as const;
export const EnvelopeBucketsBytes = 32;

/** Constants of kernels/match/envelope-buckets.ts. */
export const envelopeBucketsConstants = {
  MAX_BUCKETS: 4096,
  BUCKETS_BYTES: 98336,
} as const;

/** EqualQueues of kernels/match/equal-queue.ts. */
export const EqualQueuesLayout = {
  slots: 0,
  bits: 4,
  count: 8,
} as const;
export const EqualQueuesBytes = 12;

/** Fate of kernels/match/fates.ts. */
export const FateLayout = {
  send: 0,
  arrive: 8,
  delay: 16,
  flow: 24,
  kind: 28,
} as const;
export const FateBytes = 32;

/** Fates of kernels/match/fates.ts. */
export const FatesLayout = {
  records: 0,
  count: 4,
  room: 8,
} as const;
export const FatesBytes = 12;

/** Constants of kernels/match/fates.ts. */
export const fatesConstants = {
  FATE_BYTES: 32,
  FATE_FORWARD: 1,
  FATE_REVERSE: 2,
  FATE_ONLY_BEFORE: 3,
  FATE_ONLY_AFTER: 4,
  FATE_DUPLICATE: 5,
  FATE_HEAD_BEFORE: 6,
  FATE_TAIL_BEFORE: 7,
  FATE_HEAD_AFTER: 8,
  FATE_TAIL_AFTER: 9,
  FATE_LINK_LOCAL: 10,
  FATE_MIRRORED: 11,
  FATE_AMBIGUOUS: 12,
} as const;

/** Constants of kernels/match/intervals.ts. */
export const intervalsConstants = {
  NO_INTERVAL: 4294967295,
} as const;

/** Constants of kernels/match/judge.ts. */
export const judgeConstants = {
  DEFERRED_BYTES: 24,
  SET_BACK: 1000000,
} as const;

/** Log of kernels/match/log.ts. */
export const LogLayout = {
  table: 0,
  mask: 4,
  oldest: 8,
  newest: 12,
  spare: 16,
  made: 20,
  tail: 24,
  next: 28,
  heads: 32,
  bits: 36,
  expected: 40,
  passed: 44,
  orphans: 48,
  pastEnd: 52,
  steps: 56,
  rows: 60,
  place: 64,
  taken: 68,
} as const;
export const LogBytes = 72;

/** Constants of kernels/match/log.ts. */
export const logConstants = {
  MATCHED: 2,
  COPY: 4,
  EQUALS: 8,
  ARRIVED: 16,
  LINK_LOCAL: 32,
  AGAIN: 64,
  ENTRY: 32,
  SEGMENT: 4096,
  SMALL_BITS: 14,
  ORPHAN_WORDS: 8192,
  ORPHAN_BYTES: 65536,
} as const;

/** Total of kernels/match/match-state.ts. */
export const TotalLayout = {
  matched: 0,
  reordered: 4,
  extentMax: 8,
  pad: 12,
  extentSum: 16,
  first: 24,
  sum: 32,
  squares: 40,
  minimum: 48,
  maximum: 56,
  jitter: 64,
  jitterCount: 72,
  ttlLower: 80,
  ttlEqual: 84,
  ttlHigher: 88,
  negative: 92,
  firstSend: 96,
  lastSend: 104,
  firstArrive: 112,
  lastArrive: 120,
} as const;
export const TotalBytes = 128;

/** Interval of kernels/match/match-state.ts. */
export const IntervalLayout = {
  matched: 0,
  lost: 4,
  first: 8,
  sum: 16,
  squares: 24,
  minimum: 32,
  maximum: 40,
  index: 48,
  ambiguous: 56,
  pad: 60,
} as const;
export const IntervalBytes = 64;

/** Match of kernels/match/match-state.ts. */
export const MatchLayout = {
  before: 0,
  after: 4,
  stats: 8,
  intervalCells: 12,
  intervals: 16,
  intervalCount: 20,
  intervalRoom: 24,
  interval: 28,
  forward: 32,
  reverse: 36,
  found: 40,
  foundCount: 44,
  pairs: 48,
  pairCount: 52,
  backPairs: 56,
  backPairCount: 60,
  rows: 64,
  scratch: 68,
  arrivals: 72,
  records: 76,
  recordCount: 80,
  nextOrder: 84,
  ambiguous: 88,
  recent: 92,
  recentLow: 96,
  recentHigh: 100,
  intervalFrom: 104,
  intervalTo: 112,
  threshold: 120,
  window: 128,
  slack: 136,
  now: 144,
  epoch: 152,
  epochStart: 160,
  slope: 168,
  offset: 176,
  back: 184,
  pivot: 192,
  ended: 200,
  touched: 204,
  searches: 208,
  intervalSlots: 212,
  firstSeen0: 216,
  firstSeen1: 224,
  lastSeen0: 232,
  lastSeen1: 240,
  fates: 248,
  onlyBefore: 256,
  onlyAfter: 264,
  seen0: 272,
  copied0: 280,
  copied1: 288,
  repeats: 296,
  nat: 300,
  mapped: 304,
  mappedRoom: 308,
  named: 312,
  namedRoom: 316,
  alone: 320,
  odd: 324,
  settling: 328,
  repeated0: 332,
  repeated1: 336,
  deferred: 340,
  sample: 344,
  backSample: 348,
  blocks: 352,
  backBlocks: 356,
  ring: 360,
  ringNext: 364,
  pieces: 368,
  pieceCount: 372,
  calm: 376,
  met: 380,
  wentBack0: 384,
  wentBack1: 388,
  slow: 392,
  final0: 400,
  final1: 408,
  initial0: 416,
  initial1: 424,
  opening: 432,
  opened: 436,
  openingLooks: 440,
  regretted: 444,
  expectUntil: 448,
  expectLow: 456,
  expectHigh: 464,
  gapLow: 472,
  gapHigh: 480,
  thereLow: 488,
  thereHigh: 496,
  backLow: 504,
  backHigh: 512,
  pieceGuard: 520,
  usual: 528,
  backUsual: 536,
  base: 544,
  late: 552,
} as const;
export const MatchBytes = 556;

/** Constants of kernels/match/match-state.ts. */
export const matchStateConstants = {
  TOTAL_BYTES: 128,
  HISTOGRAM: 16384,
  HISTOGRAM_MIDDLE: 8192,
  INTERVAL_BYTES: 64,
  SETTLED: 1,
  PLACES_UNKNOWN: 2,
  PAIR_SEND: 0,
  PAIR_RAW: 8,
  PAIR_DELAY: 16,
  PAIR_BUCKET: 24,
  PAIR_ORDER: 28,
  PAIR_FLOW: 32,
  PAIR_BYTES: 36,
  OPENING_PAIRS: 512,
  OPENING_PAIR: 40,
  RECORDS: 65536,
} as const;

/** Constants of kernels/match/mirrors.ts. */
export const mirrorsConstants = {
  MOST_OF: 0.8,
} as const;

/** Constants of kernels/match/repeat-fit.ts. */
export const repeatFitConstants = {
  TWICE: 1000000,
} as const;

/** Repeats of kernels/match/repeats.ts. */
export const RepeatsLayout = {
  count: 0,
  rows: 4,
  groups: 8,
  slots: 12,
  bits: 16,
  filter: 20,
} as const;
export const RepeatsBytes = 24;

/** Repeat of kernels/match/repeats.ts. */
export const RepeatLayout = {
  next: 0,
  partner: 4,
  time: 8,
  flow: 16,
  state: 20,
  order: 24,
  single: 28,
} as const;
export const RepeatBytes = 32;

/** Group of kernels/match/repeats.ts. */
export const GroupLayout = {
  digest: 0,
  first0: 8,
  last0: 12,
  count0: 16,
  first1: 20,
  last1: 24,
  count1: 28,
} as const;
export const GroupBytes = 32;

/** Constants of kernels/match/repeats.ts. */
export const repeatsConstants = {
  ROW: 32,
  MOST_ROWS: 33554432,
} as const;

/** Alone of kernels/match/residue.ts. */
export const AloneLayout = {
  time: 0,
  flow: 8,
  side: 12,
  fate: 16,
  mark: 20,
} as const;
export const AloneBytes = 24;

/** Constants of kernels/match/residue.ts. */
export const residueConstants = {
  ALONE_BYTES: 24,
  DOUBTED: 256,
  EARLY: 512,
  FATE: 255,
  MAX_ALONE: 4194304,
} as const;

/** Constants of kernels/match/send-order.ts. */
export const sendOrderConstants = {
  RING: 131072,
  LATE: 1,
  UNPLACED: 1,
} as const;

/** Backlog of kernels/rli/backlog.ts. */
export const BacklogLayout = {
  have: 0,
  haveLeft: 4,
  last: 8,
  since: 16,
  slack: 24,
  left: 32,
  leftDelay: 40,
  count: 48,
  backlogs: 56,
  products: 64,
  delays: 72,
  share: 80,
  doubt: 88,
  seen: 96,
  pad: 100,
  base: 104,
  idles: 112,
  idleWaits: 120,
  waits: 128,
  unseen: 136,
  octaves: 144,
  pad2: 148,
} as const;
export const BacklogBytes = 152;

/** Gap of kernels/rli/gap.ts. */
export const GapLayout = {
  line: 0,
  missed: 4,
  queue: 8,
  trains: 12,
  seen: 16,
  literal: 20,
  nsPerByte: 24,
  nsPerByteShared: 32,
  time: 40,
  delay: 48,
  slope: 56,
  began: 64,
  backlog: 72,
  growth: 80,
  share: 88,
  doubt: 96,
  leftDelay: 104,
  since: 112,
  ratio: 120,
  drag: 128,
  minimum: 136,
  miss: 144,
  missSquared: 152,
  place: 160,
  off: 168,
  alike: 176,
  gaps: 184,
  packets: 188,
  apart: 192,
  apartBefore: 200,
  packetsBefore: 208,
  near: 216,
  nearPackets: 224,
} as const;
export const GapBytes = 232;

/** Constants of kernels/rli/gap.ts. */
export const gapConstants = {
  LINE_BACKLOG: 2,
} as const;

/** Misses of kernels/rli/misses.ts. */
export const MissesLayout = {
  have: 0,
  haveBefore: 4,
  weight: 8,
  levelShare: 16,
  leftTime: 24,
  leftDelay: 32,
  beforeTime: 40,
  beforeDelay: 48,
  leftBacklog: 56,
  beforeBacklog: 64,
  miss: 72,
  level: 80,
  steps: 88,
  strides: 96,
  spreadCount: 104,
  spreadMean: 112,
  spreadSquares: 120,
} as const;
export const MissesBytes = 128;

/** References of kernels/rli/references.ts. */
export const ReferencesLayout = {
  port: 0,
  session: 4,
  anySession: 8,
  authenticated: 12,
  source: 16,
  senders: 24,
  pad: 28,
  origin: 32,
  longest: 40,
  error: 48,
  seen: 56,
  lost: 60,
  duplicate: 64,
  reordered: 68,
  forged: 72,
  restarts: 76,
} as const;
export const ReferencesBytes = 80;

/** Line of kernels/rli/references.ts. */
export const LineLayout = {
  literal: 0,
  level: 4,
  have: 8,
  wire: 12,
  arrival: 16,
  whole: 24,
  error: 32,
  floor: 40,
  floorBefore: 48,
  turn: 56,
  nsPerByte: 64,
  time: 72,
  delay: 80,
  slope: 88,
  share: 96,
  busy: 104,
  idle: 108,
} as const;
export const LineBytes = 112;

/** Constants of kernels/rli/references.ts. */
export const referencesConstants = {
  REGULAR: Infinity,
} as const;

/** Senders of kernels/rli/senders.ts. */
export const SendersLayout = {
  lead: 0,
  restarts: 4,
  lost: 8,
  turned: 12,
} as const;
export const SendersBytes = 16;

/** Constants of kernels/rli/senders.ts. */
export const sendersConstants = {
  USED: 0,
  DUPLICATE: 1,
  OVERTAKEN: 2,
  NOT_BELIEVED: 3,
} as const;

/** Rli of kernels/rli/state.ts. */
export const RliLayout = {
  flows: 0,
  cells: 4,
  references: 8,
  buffer: 12,
  room: 16,
  held: 20,
  between: 24,
  maxFlows: 28,
  selection: 32,
  sampleBelow: 36,
  serial: 40,
  expired: 44,
  expiredCount: 48,
  expiredRoom: 52,
  gap: 56,
  every: 60,
  since: 64,
  packets: 68,
  answered: 72,
  oneSided: 76,
  spilled: 80,
  unanswered: 84,
  unselected: 88,
  shed: 92,
  checked: 96,
  hurried: 100,
  busy: 104,
  nsPerByte: 112,
  idle: 120,
  lastExpiry: 128,
  bytesSince: 136,
  sum: 144,
  squares: 152,
  minimum: 160,
  maximum: 168,
  error: 176,
  misses: 184,
  timestamps: 192,
  busyBytes: 200,
  busyTime: 208,
  drag: 216,
  excess: 224,
  idleExcess: 232,
  doubt: 240,
} as const;
export const RliBytes = 248;

/** Constants of kernels/rli/state.ts. */
export const stateConstants = {
  BUFFERED: 24,
  NO_FLOW: 4294967295,
  OWN_BYTES: 80,
  RECORD: 128,
} as const;

/** LinkClass of kernels/simulate/classes.ts. */
export const LinkClassLayout = {
  limit: 0,
  quantum: 8,
  deficit: 16,
  head: 24,
  tail: 28,
  count: 32,
  longest: 36,
  packets: 40,
  bytes: 48,
  drops: 56,
} as const;
export const LinkClassBytes = 64;

/** Link of kernels/simulate/classes.ts. */
export const LinkLayout = {
  nsPerByte: 0,
  propagation: 8,
  drr: 16,
  classes: 24,
  free: 32,
  busyNs: 40,
  table: 48,
  map: 52,
  rows: 56,
  next: 60,
  room: 64,
  used: 68,
  freeList: 72,
  waiting: 76,
  turn: 80,
  turnOpen: 84,
  doneHead: 88,
  doneTail: 92,
} as const;
export const LinkBytes = 96;

/** Constants of kernels/simulate/delay.ts. */
export const delayConstants = {
  CONSTANT: 0,
  WEIBULL: 1,
  PARETO: 2,
  EXPONENTIAL: 3,
  LOGNORMAL: 4,
  UNIFORM: 5,
} as const;

/** Keys of kernels/simulate/keys.ts. */
export const KeysLayout = {
  sources: 0,
  sourceTable: 8,
  targets: 16,
  targetTable: 24,
  classes: 32,
  classTable: 40,
  udpShare: 48,
} as const;
export const KeysBytes = 56;

/** Fifo of kernels/simulate/queue.ts. */
export const FifoLayout = {
  nsPerByte: 0,
  limit: 8,
  red: 16,
  minTh: 24,
  maxTh: 32,
  weight: 40,
  maxP: 48,
  idleNs: 56,
  propagation: 64,
  free: 72,
  average: 80,
  sinceDrop: 88,
  head: 96,
  count: 100,
  mask: 104,
  ring: 108,
  packets: 112,
  bytes: 120,
  tailDrops: 128,
  redDrops: 136,
  droppedBytes: 144,
  longest: 152,
  busyNs: 160,
  rng: 168,
} as const;
export const FifoBytes = 172;

/** Rng of kernels/simulate/random.ts. */
export const RngLayout = {
  s0: 0,
  s1: 8,
  s2: 16,
  s3: 24,
  spare: 32,
} as const;
export const RngBytes = 40;

/** Row of kernels/simulate/rows.ts. */
export const RowLayout = {
  time: 0,
  digest: 8,
  order: 16,
  meta: 24,
  addrA: 32,
  addrB: 40,
  addrC: 48,
  addrD: 56,
  delay: 64,
  wireLength: 72,
  ipid: 76,
  flags: 80,
  iface: 84,
} as const;
export const RowBytes = 88;

/** Constants of kernels/simulate/rows.ts. */
export const rowsConstants = {
  ROW_BYTES: 88,
} as const;

/** FlowTruth of kernels/simulate/truth.ts. */
export const FlowTruthLayout = {
  hash: 0,
  meta: 8,
  addrA: 16,
  addrB: 24,
  addrC: 32,
  addrD: 40,
  sent: 48,
  lost: 56,
  sum: 64,
  squares: 72,
  minimum: 80,
  maximum: 88,
  bytes: 96,
  first: 104,
  last: 112,
} as const;
export const FlowTruthBytes = 120;

/** Cells of kernels/sketches/cells.ts. */
export const CellsLayout = {
  used: 0,
  mask: 4,
  slots: 8,
} as const;
export const CellsBytes = 12;

/** Lds of kernels/sketches/lds.ts. */
export const LdsLayout = {
  rows: 0,
  columns: 4,
  k: 8,
  delays: 12,
  cells: 16,
  table: 20,
  bytes: 24,
  list: 28,
  room: 32,
  pad: 36,
  start: 40,
} as const;
export const LdsBytes = 48;

/** FlowRows of kernels/text/flow-rows.ts. */
export const FlowRowsLayout = {
  stats: 0,
  powers: 4,
  template: 8,
  templateBytes: 12,
  none: 16,
  noneBytes: 20,
  reverse: 24,
  edges: 28,
  counts: 32,
  end: 36,
} as const;
export const FlowRowsBytes = 40;

/** Constants of kernels/text/flow-rows.ts. */
export const flowRowsConstants = {
  FIELD_SRC: 128,
  FIELD_DST: 129,
  FIELD_PROTO: 130,
  FIELD_SPORT: 131,
  FIELD_DPORT: 132,
  FIELD_COMMUNITY_ID: 133,
  FIELD_SENT: 134,
  FIELD_RECEIVED: 135,
  FIELD_MATCHED: 136,
  FIELD_LOST: 137,
  FIELD_APPEARED: 138,
  FIELD_DUPLICATES: 139,
  FIELD_REORDERED: 140,
  FIELD_BYTES: 141,
  FIELD_COUNT: 142,
  FIELD_MEAN: 143,
  FIELD_STDEV: 144,
  FIELD_MIN: 145,
  FIELD_MAX: 146,
  FIELD_P50: 147,
  FIELD_P90: 148,
  FIELD_P99: 149,
  FIELD_P999: 150,
  FIELD_JITTER: 151,
  ROW_VALUES_BYTES: 1024,
} as const;

/** Constants of kernels/text/number.ts. */
export const numberConstants = {
  POWER_FIRST: -24,
  POWER_COUNT: 28,
} as const;

/** Constants of kernels/text/quantiles.ts. */
export const quantilesConstants = {
  QUANTILES_BYTES: 66560,
} as const;
