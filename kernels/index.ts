// Everything the TypeScript side may call, one line per kernel file.
export * from "./decode/batch";
export * from "./decode/digest";
export * from "./decode/filter";
export { cursorNew } from "./decode/cursor";
export * from "./decode/walk";
export { walkErf } from "./decode/walk-erf";
export * from "./flows/flows";
export * from "./sketches/cells";
export { keyRuns } from "./flows/key-runs";
export { statsCount, statsFaults, statsFlow, statsFree, statsMore, statsNew } from "./flows/flow-records";
export { statsTop } from "./flows/tables";
export { statsBothWays, statsDirect, statsKey, statsPeer, statsReverse, statsSelect } from "./flows/flow-index";
export * from "./flows/flow-sums";
export { matchFree, matchNew, matchTableBytes } from "./match/match-state";
export * from "./match/match";
export { matchFates, matchNoteFates, matchTakeFates } from "./match/fates";
export * from "./match/thin";
export * from "./sketches/lds";
export * from "./match/delays";
export * from "./simulate/simulate";
export * from "./maple/cells";
export * from "./maple/svbf";
export * from "./maple/filters";
export * from "./maple/ribbon";
export * from "./maple/mixed";
export * from "./maple/buffer";
export * from "./maple/index";
export * from "./maple/flow-delays";
export { packetTimesFill, packetTimesSeen } from "./maple/packet-times";
export * from "./rli/rli";
export {
  rliClear, rliCounters, rliExpired, rliExpiredCount, rliFlows, rliForget, rliFree, rliNew, rliOrigin, rliReferences, rliSelect, rliSums, rliTrust,
} from "./rli/state";
export * from "./rli/reference-finder";
export { hmacFree, hmacNew, hmacVerify } from "./rli/hmac";
export * from "./sketches/lda";
export * from "./flows/flow-counts";
export * from "./sketches/colate";
