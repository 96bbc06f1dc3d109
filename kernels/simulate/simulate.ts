// The simulator's kernels: traffic, queues, delays, loss, and holding packets until their fate is known.
export { simAppend, simBytes, simInject, simInjectedNew, simMerge, simTimestampOrder } from "./rows";
export { simTrafficActive, simTrafficFill, simTrafficFlows, simTrafficFree, simTrafficNew, simTrafficStart } from "./traffic";
export { simFifoFree, simFifoNew, simFifoRun, simFifoStart, simPathsRun } from "./queue";
export {
  simDelayRun, simFlowDelayRun, simLossBursts, simLossUniform, simObserve, simReorder, simRngNew, simUniform,
} from "./delay";
export { simPopulationFill, simPopulationFree, simPopulationNew, simPopulationStart } from "./population";
export { simHoldCount, simHoldFree, simHoldNew, simHoldPop, simHoldPush } from "./hold";
export { simReplayFill, simReplayFree, simReplayLast, simReplayNew, simReplayRewind, simReplayTake } from "./replay";
export { simTruthCount, simTruthEntries, simTruthFree, simTruthNew, simTruthUpdate } from "./truth";
export {
  simLinkClass, simLinkFlush, simLinkFree, simLinkMap, simLinkNew, simLinkPop, simLinkPush,
} from "./classes";
export { simFrameBytes, simFrames, simFramesNew, simFramesUsed } from "./frames";
