/** What the compiled kernels export. Made by scripts/kernel-bindings.mjs from the module; not to be edited. Addresses are numbers. */
export interface KernelExports {
  // kernels/decode/batch.ts
  batchNew(capacity: number): number;
  batchKeepFrames(b: number): void;
  batchFree(b: number): void;
  alloc(bytes: number): number;
  free(p: number): void;
  batchUntil(b: number, from: number, until: number, shift: number): number;
  batchUntilOrdered(b: number, from: number, until: number, shift: number): number;
  batchWithin(b: number, from: number, low: number, end: number): number;
  batchFlagged(b: number, from: number, to: number, mask: number): number;
  batchBefore(b: number, from: number, to: number, start: number): number;
  batchCompact(b: number): number;
  // kernels/decode/cursor.ts
  cursorNew(): number;
  // kernels/decode/digest.ts
  mixWord(h: bigint, w: bigint): bigint;
  avalanche(h: bigint): bigint;
  rehash(h: bigint, seed: bigint): bigint;
  rehash64(h: bigint, seed: bigint): bigint;
  keyFlows(b: number, mask: number, seed: bigint): void;
  hashKey(key: number, seed: bigint): bigint;
  // kernels/decode/filter.ts
  filterConstant(b: number, plane: number, value: number): void;
  filterMeta(b: number, plane: number, mask: bigint, value: bigint): void;
  filterWord(b: number, plane: number, column: number, stride: number, question: number): void;
  filterPort(b: number, plane: number, low: number, high: number, ends: number, protoA: number, protoB: number, protoC: number): void;
  filterNet4(b: number, plane: number, net: number, mask: number, ends: number): void;
  filterNet6(b: number, plane: number, netHigh: bigint, netLow: bigint, maskHigh: bigint, maskLow: bigint, ends: number): void;
  filterAnd(b: number, plane: number, other: number): void;
  filterOr(b: number, plane: number, other: number): void;
  filterNot(b: number, plane: number): void;
  // kernels/decode/neighbours.ts
  neighboursTake(p: number, times: number, from: number, to: number): number;
  // kernels/decode/walk.ts
  walkPcap(c: number, b: number): number;
  walkPcapng(c: number, b: number): number;
  countShorts(b: number, counts: number): number;
  // kernels/decode/walk-erf.ts
  walkErf(c: number, b: number): number;
  // kernels/decode/walk-ring.ts
  walkRing(c: number, b: number): number;
  // kernels/flows/flow-counts.ts
  flowCountsNew(): number;
  flowCountsFree(p: number): void;
  flowCountsTable(p: number): number;
  flowCountsShedPackets(p: number): bigint;
  flowCountsShedBytes(p: number): bigint;
  flowCountsUpdate(p: number, b: number, from: number, to: number): void;
  flowCountsAdd(p: number, from: number, count: number): void;
  flowCountsAddShed(p: number, packets: bigint, bytes: bigint): void;
  flowCountsShed(p: number, cut: bigint): void;
  flowCountsClear(p: number): void;
  // kernels/flows/flow-index.ts
  statsBothWays(p: number, maps: number, bits: number, out: number, room: number): number;
  statsDirect(p: number, key: number, direction: number): void;
  statsKey(p: number, id: number, out: number): void;
  statsPeer(p: number, from: number, maximum: number, scratch: number): number;
  statsReverse(p: number, id: number, scratch: number): number;
  statsSelect(p: number, b: number, runs: number, runCount: number, direction: number): void;
  // kernels/flows/flow-lists.ts
  journalCount(from: number, to: number, shift: number, groups: number): void;
  journalDivide(from: number, to: number, shift: number, groups: number): void;
  journalPick(p: number, from: number, to: number, wanted: number): void;
  journalPut(p: number, from: number, to: number): void;
  statsSettle(p: number): void;
  statsSettleSome(p: number, wanted: number): void;
  statsTidy(p: number): boolean;
  // kernels/flows/flow-records.ts
  statsCount(p: number): number;
  statsFaults(p: number, id: number): number;
  statsFaultsMade(p: number, id: number): number;
  statsFlow(p: number, id: number): number;
  statsFree(p: number): void;
  statsMore(p: number, id: number): number;
  statsNew(cells: number, seed: bigint): number;
  // kernels/flows/flow-sums.ts
  statsSums(p: number, from: number, to: number, twoWay: number, out: number): void;
  statsMeasure(p: number, from: number, to: number, by: number, way: number, edges: number, minimum: number, out: number): number;
  statsEdgesOnly(p: number, from: number, to: number, out: number): number;
  statsDirection(p: number, id: number): number;
  statsTurn(p: number, id: number, direction: number): void;
  // kernels/flows/flows.ts
  flowsNew(ownerBytes: number): number;
  flowsFree(p: number): void;
  flowRecord(flows: number, id: number): number;
  flowsCount(p: number): number;
  flowsRecord(p: number, id: number): number;
  flowsFind(flows: number, hash: bigint, meta: bigint, a: bigint, b: bigint, c: bigint, d: bigint): number;
  flowsPeek(flows: number, batch: number, i: number, hash: bigint, meta: bigint): number;
  flowsAssign(p: number, b: number, ids: number): void;
  // kernels/flows/heavy-flows.ts
  heavyFlowsNew(max: number): number;
  heavyFlowsFree(p: number): void;
  heavyFlowsClear(p: number): void;
  heavyFlowsCount(p: number): number;
  heavyFlowsRecord(p: number, id: number): number;
  heavyFlowsFloor(p: number): bigint;
  heavyFlowsShed(p: number): void;
  heavyFlowsUpdate(p: number, b: number, from: number, to: number): void;
  // kernels/flows/heavy-pack.ts
  heavyFlowsOrder(p: number): number;
  heavyFlowsPack(list: number, n: number, to: number): number;
  // kernels/flows/key-runs.ts
  keyRows(b: number, from: number, to: number, mask: number, runs: number): number;
  keyRuns(b: number, from: number, to: number, mask: number, seed: bigint, runs: number): number;
  // kernels/flows/tables.ts
  statsTop(): number;
  // kernels/maple/buffer.ts
  mapleBufferNew(capacity: number, flowLimit: number, perByte: number): number;
  mapleBufferFree(p: number): void;
  mapleBufferReset(p: number): void;
  mapleBufferTaken(p: number): void;
  flowPacketKey(flowHash: bigint, ipid: number): bigint;
  flowPacketKeys(flowHash: bigint, first: number, n: number, out: number): void;
  mapleBufferAppend(p: number, b: number, from: number, to: number): void;
  mapleBufferForgetFlows(p: number): void;
  // kernels/maple/cells.ts
  mapleCellsNew(groups: number): number;
  mapleCellsFree(p: number): void;
  mapleCellsAt(p: number): number;
  mapleCellsReset(p: number): void;
  mapleAssign(p: number, delays: number, codes: number, n: number): void;
  mapleHistogram(histogram: number, delays: number, n: number): void;
  // kernels/maple/filters.ts
  pbfInsert(bits: number, parts: number, hashes: number, seed: bigint, keys: number, codes: number, n: number): number;
  pbfLookup(bits: number, parts: number, hashes: number, seed: bigint, groups: number, asked: number): void;
  combInsert(bits: number, m: number, hashes: number, seed: bigint, words: number, keys: number, codes: number, n: number): void;
  combLookup(bits: number, m: number, hashes: number, seed: bigint, f: number, words: number, groups: number, asked: number): void;
  tableInsert(table: number, slots: number, width: number, seed: bigint, keys: number, codes: number, n: number): void;
  tableLookup(table: number, slots: number, width: number, seed: bigint, keys: number, n: number, out: number): void;
  // kernels/maple/flow-delays.ts
  mapleFlowDelays(p: number, codes: number, groups: number, perBucket: number, out: number): void;
  // kernels/maple/index.ts
  bucketOfFlow(hash: bigint, buckets: number): number;
  bucketFlows(flows: number, buckets: number, ends: number, order: number): void;
  mapleIndexBuild(p: number, perBucket: number, out: number): void;
  // kernels/maple/mixed.ts
  mixedSplit(keys: number, codes: number, n: number, seed: bigint, first: number, second: number, split: number): void;
  mixedGather(answers: number, rows: number, n: number, shift: number, groups: number, out: number): void;
  // kernels/maple/packet-times.ts
  packetTimesFill(b: number, layout: number, origin: bigint, window: number, counts: number): void;
  packetTimesSeen(b: number, layout: number, origin: bigint, window: number): number;
  // kernels/maple/ribbon.ts
  ribbonFree(p: number): void;
  ribbonBuild(keys: number, codes: number, n: number, seed: bigint, r: number, blockKeys: number, extra: number): number;
  ribbonLookup(index: number, words: number, blocks: number, seed: bigint, r: number, groups: number, asked: number): void;
  ribbonBlock(key: bigint, seed: bigint, blocks: number): number;
  ribbonSlot(key: bigint, seed: bigint, head: number, next: number): number;
  ribbonValue(key: bigint, seed: bigint, head: number, slot: number, window: number, r: number): number;
  // kernels/maple/svbf.ts
  svbfInsert(bits: number, m: number, hashes: number, seed: bigint, keys: number, codes: number, n: number): void;
  svbfClose(bits: number, m: number, tail: number): void;
  svbfLookup(bits: number, m: number, hashes: number, seed: bigint, groups: number, asked: number): void;
  svbfPosition(key: bigint, seed: bigint, m: number, j: number): number;
  // kernels/match/delays.ts
  delaysNew(window: number, minimum: number): number;
  delaysFree(p: number): void;
  delaysSent(p: number, b: number, from: number, until: number, shift: number): number;
  delaysExpire(p: number, until: number): void;
  delaysFill(p: number, b: number, shift: number): void;
  delaysCount(p: number, what: number): number;
  // kernels/match/envelope-buckets.ts
  envelopeAdd(p: number, points: number, n: number): number;
  // kernels/match/fates.ts
  matchFates(p: number): number;
  matchNoteFates(p: number): void;
  matchTakeFates(p: number): number;
  // kernels/match/match.ts
  matchRows(p: number, b: number, runs: number, runCount: number, side: number, from: number, shift: number): void;
  matchFinish(p: number): void;
  matchEnd(p: number, side: number, last: number): void;
  matchBase(p: number, base: number): void;
  matchPairs(p: number, direction: number): number;
  matchPairCount(p: number, direction: number): number;
  matchTotal(p: number, direction: number): number;
  matchIntervals(p: number): number;
  matchIntervalCount(p: number): number;
  matchAmbiguous(p: number): number;
  // kernels/match/match-state.ts
  matchFree(p: number): void;
  matchNew(stats: number, intervalCells: number, rows: number): number;
  matchTableBytes(p: number): number;
  // kernels/match/names.ts
  matchMapped(p: number, flow: number): number;
  // kernels/match/opening.ts
  matchOpened(p: number): number;
  matchOpening(p: number): number;
  // kernels/match/pieces.ts
  matchPieces(p: number, n: number): number;
  // kernels/match/repeat-settled.ts
  matchLateCount(p: number): number;
  matchTakeLate(p: number, from: number, all: number): number;
  // kernels/match/residue.ts
  matchAdd(p: number, flow: number, before: number, after: number): void;
  matchAlone(p: number, number: number): number;
  matchAloneBoth(p: number): number;
  matchAloneCount(p: number): number;
  matchCorrectEarly(p: number): void;
  matchLost(p: number, time: number, change: number): void;
  matchOnlyCount(p: number): number;
  matchWithout(p: number, time: number, packets: number): void;
  // kernels/match/thin.ts
  thinNew(): number;
  thinTake(p: number, times: number, values: number, n: number, sign: number, whole: number, out: number): number;
  thinGive(p: number, out: number): number;
  // kernels/rli/hmac.ts
  hmacFree(p: number): void;
  hmacNew(key: number, bytes: number): number;
  hmacVerify(p: number, b: number, port: number): number;
  // kernels/rli/reference-finder.ts
  referenceFinderNew(port: number, session: number, longest: number, nsPerByte: number): number;
  referenceFinderFree(p: number): void;
  referenceFinderTrust(p: number, header: number, authenticated: number): void;
  referenceFinderOrigin(p: number, origin: bigint): void;
  referenceFinderCounters(p: number): number;
  referenceFinderSums(p: number): number;
  referenceFind(p: number, b: number, from: number, to: number, found: number, mark: number): number;
  referenceLast(p: number, found: number): number;
  referenceFill(p: number, b: number, from: number, to: number): number;
  // kernels/rli/rli.ts
  rliUpdate(p: number, b: number, from: number, to: number, seed: bigint): void;
  rliFinish(p: number): void;
  // kernels/rli/state.ts
  rliClear(p: number, cells: number): void;
  rliCounters(p: number): number;
  rliExpired(p: number): number;
  rliExpiredCount(p: number): number;
  rliFlows(p: number): number;
  rliForget(p: number): void;
  rliFree(p: number): void;
  rliNew(room: number, leftOnly: number, line: number, nsPerByte: number, port: number, session: number, longest: number): number;
  rliOrigin(p: number, origin: bigint): void;
  rliReferences(p: number): number;
  rliSelect(p: number, maxFlows: number, selection: number, sampleBelow: number, idle: number, every: number): void;
  rliSums(p: number): number;
  rliTrust(p: number, header: number, authenticated: number): void;
  // kernels/simulate/classes.ts
  simLinkClass(p: number, i: number): number;
  simLinkFlush(p: number): void;
  simLinkFree(p: number): void;
  simLinkMap(p: number): number;
  simLinkNew(classes: number): number;
  simLinkPop(p: number, out: number): number;
  simLinkPush(p: number, b: number, from: number, cross: number, position: number, crossEnded: number): number;
  // kernels/simulate/delay.ts
  simDelayRun(r: number, b: number, kind: number, a: number, shape: number, spaced: number, last: number): void;
  simFlowDelayRun(r: number, b: number, seed: bigint, modes: number, a: number, second: number, share: number, jitter: number): void;
  simLossBursts(r: number, b: number, state: number, enter: number, leave: number): number;
  simLossUniform(r: number, b: number, probability: number): number;
  simObserve(b: number, out: number, arrival: number, r: number, offset: number, skew: number, jitter: number, resolution: number): number;
  simReorder(r: number, b: number, probability: number, extent: number): number;
  simRngNew(seed: bigint, stream: bigint): number;
  simUniform(r: number): number;
  // kernels/simulate/frames.ts
  simFrameBytes(snap: number): number;
  simFrames(writer: number, b: number, from: number, out: number, end: number): number;
  simFramesNew(base: bigint, seed: bigint, snap: number, ethernet: number): number;
  simFramesUsed(writer: number): number;
  // kernels/simulate/hold.ts
  simHoldCount(p: number): number;
  simHoldFree(p: number): void;
  simHoldNew(by: number): number;
  simHoldPop(p: number, out: number, until: number): number;
  simHoldPush(p: number, b: number): void;
  // kernels/simulate/population.ts
  simPopulationFill(p: number, b: number): number;
  simPopulationFree(p: number): void;
  simPopulationNew(): number;
  simPopulationStart(p: number, seed: bigint, stream: bigint): void;
  // kernels/simulate/queue.ts
  simFifoFree(p: number): void;
  simFifoNew(): number;
  simFifoRun(p: number, b: number, from: number, cross: number, position: number, crossEnded: number): number;
  simFifoStart(p: number, seed: bigint, stream: bigint): void;
  simPathsRun(paths: number, count: number, spray: number, seed: bigint, b: number): void;
  // kernels/simulate/replay.ts
  simReplayFill(p: number, b: number): number;
  simReplayFree(p: number): void;
  simReplayLast(p: number): number;
  simReplayNew(seed: bigint): number;
  simReplayRewind(p: number, loop: number, shift: number, empty: number): void;
  simReplayTake(p: number, b: number, fresh: number): number;
  // kernels/simulate/rows.ts
  simAppend(a: number, from: number, out: number): number;
  simBytes(b: number): number;
  simInject(b: number, times: number, out: number, number: bigint, injectedPacket: number): number;
  simInjectedNew(seed: bigint, meta: bigint, addr: bigint, length: number, flags: number): number;
  simMerge(a: number, b: number, position: number, out: number): void;
  simTimestampOrder(b: number, first: number): number;
  // kernels/simulate/traffic.ts
  simTrafficActive(p: number): number;
  simTrafficFill(p: number, b: number): number;
  simTrafficFlows(p: number): number;
  simTrafficFree(p: number): void;
  simTrafficNew(): number;
  simTrafficStart(p: number, seed: bigint, stream: bigint): void;
  // kernels/simulate/truth.ts
  simTruthCount(p: number): number;
  simTruthEntries(p: number): number;
  simTruthFree(p: number): void;
  simTruthNew(): number;
  simTruthUpdate(p: number, b: number): void;
  // kernels/sketches/cells.ts
  bucketOf(v: number): number;
  bucketOfNs(v: number): number;
  cellsNew(): number;
  cellsFree(p: number): void;
  cellsAdd(cells: number, owner: number, bucket: number): void;
  cellsAddMany(cells: number, owner: number, bucket: number, n: number): void;
  cellsCount(p: number, owner: number, bucket: number): number;
  cellsExport(p: number, out: number): number;
  cellsUsed(p: number): number;
  cellsGroup(p: number, owners: number, offsets: number, out: number): void;
  // kernels/sketches/colate.ts
  colateNew(n: number, m: number, vectors: number, multiplier: bigint, perUnit: number, literal: boolean): number;
  colateFree(p: number): void;
  colateClear(p: number): void;
  colateEdge(p: number, vector: number, edge: bigint): void;
  colateSlot(p: number, slot: number, seed: bigint, first: number, cells: number): void;
  colateCells(p: number): number;
  colateMax(p: number): number;
  colateTotal(p: number): bigint;
  colateUpdate(p: number, b: number, from: number, to: number, start: number): void;
  colatePlaces(p: number, hashes: number, count: number, out: number): void;
  // kernels/sketches/fold.ts
  cellsFold(to: number, from: number, count: number): void;
  ldsCountRows(p: number): void;
  // kernels/sketches/lda.ts
  ldaNew(banks: number, rows: number, seed: bigint): number;
  ldaFree(p: number): void;
  ldaClear(p: number): void;
  ldaCells(p: number): number;
  ldaSetThreshold(p: number, bank: number, from: bigint): void;
  ldaSetLimit(p: number, limit: bigint): void;
  ldaUpdate(p: number, b: number, from: number, to: number, start: number): void;
  // kernels/sketches/lds.ts
  ldsNew(rows: number, columns: number, k: number, delays: boolean, bytes: boolean): number;
  ldsBegin(p: number, start: number): void;
  ldsClear(p: number): void;
  ldsRow(p: number, row: number, flowSeed: bigint, packetSeed: bigint, threshold: bigint): void;
  ldsCells(p: number): number;
  ldsTable(p: number): number;
  ldsBytes(p: number): number;
  ldsFree(p: number): void;
  ldsUpdate(p: number, b: number, from: number, to: number, weights: number): void;
  // kernels/sketches/lds-pack.ts
  ldsPackNew(digestBits: number, centre: number): number;
  ldsSum(p: number): number;
  ldsCounted(p: number): number;
  ldsPack(p: number, q: number, to: number, room: number): number;
  // kernels/text/flow-rows.ts
  flowRowsFree(p: number): void;
  flowRowsNew(): number;
  flowRowsWrite(p: number, ids: number, n: number, out: number, room: number): number;
  // kernels/text/number.ts
  numberText(value: number, powers: number, out: number): number;
}
