// The simulator's kernels: traffic, queues, delays, loss, and what holds packets until their fate is known.
export { simAppend, simBytes, simInject, simMerge, simStampOrder } from "./simulate-rows";
export { simTrafficActive, simTrafficFill, simTrafficFlows, simTrafficFree, simTrafficNew, simTrafficStart } from "./simulate-traffic";
export { simFifoFree, simFifoNew, simFifoRun, simFifoStart, simPathsRun } from "./simulate-queue";
export {
  simDelayRun, simFlowDelayRun, simLossBursts, simLossUniform, simObserve, simReorder, simRngNew, simUniform,
} from "./simulate-delay";
export { simPopulationFill, simPopulationFree, simPopulationNew, simPopulationStart } from "./simulate-population";
export { simHoldCount, simHoldFree, simHoldNew, simHoldPop, simHoldPush } from "./simulate-hold";
export { simReplayFill, simReplayFree, simReplayLast, simReplayNew, simReplayRewind, simReplayTake } from "./simulate-replay";
export { simTruthCount, simTruthEntries, simTruthFree, simTruthNew, simTruthUpdate } from "./simulate-truth";
export {
  simLinkClass, simLinkFlush, simLinkFree, simLinkMap, simLinkNew, simLinkPop, simLinkPush,
} from "./simulate-classes";
export { simFrameBytes, simFrames } from "./simulate-frames";
