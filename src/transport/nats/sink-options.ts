/** Apart from the sink: whoever only names them needs no types of the packages that it uses, which need not be there. */
import type { SpooledSinkOptions } from "../spooled-sink.ts";
import type { NatsEndpoint } from "./nats-url.ts";

export interface NatsSinkOptions extends NatsEndpoint, SpooledSinkOptions {}
