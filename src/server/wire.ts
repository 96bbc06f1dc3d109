/** Constants shared by the collector and its clients. In a file of their own, so that a client does not load the service. */

/** Largest message, uncompressed. */
export const MAX_MESSAGE_BYTES = 64 << 20;
export const PACKET_QUESTION_TYPE = "application/vnd.hoptime.packet-question";
