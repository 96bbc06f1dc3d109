/** An incident as one sentence, with the page's formats of numbers and times. */
import { incidentSentence } from "../../../src/present/text/incident-sentence.ts";
import type { Incident } from "../api/network.ts";
import { msOf } from "../state/time-range.ts";
import { countText, delayText, durationText, shareText, timeText } from "./text.ts";

export const incidentText = (incident: Incident): string =>
  incidentSentence(incident, {
    delay: delayText,
    share: shareText,
    count: countText,
    time: (ns) => timeText(msOf(ns)),
    lasting: (startNs, endNs) => durationText(msOf(endNs) - msOf(startNs)),
  });
