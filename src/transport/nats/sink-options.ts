/** In its own file: code that only names the options needs no types of the sink's optional packages. */
import type { SpooledSinkOptions } from "../spooled-sink.ts";
import type { NatsEndpoint } from "./nats-url.ts";

export interface NatsSinkOptions extends NatsEndpoint, SpooledSinkOptions {}
