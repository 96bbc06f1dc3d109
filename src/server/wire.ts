/** What the collector and those who ask it agree on. On its own: a client does not load the service. */

/** Of one message, unpacked. */
export const MAX_MESSAGE_BYTES = 64 << 20;
export const PACKET_QUESTION_TYPE = "application/vnd.hoptime.packet-question";
