/**
 * Selects flows by the filter language of the command line (docs/filters.md) on flow keys. Text that is not an expression is searched for in the flow's name.
 */
import { parseAddress } from "../address.ts";
import { parseFlowKey, withoutPrefix } from "../flow/flow-text.ts";
import { matches, type PacketFields } from "./expression.ts";
import { FilterParser } from "./parser.ts";

export interface FlowFilter {
  text: string;
  fits(flow: string): boolean;
  /** Why the text is not an expression. It is then searched for in the flow's name. */
  problem: string | null;
}

export function flowFilter(text: string): FlowFilter {
  const asText = (problem: string | null): FlowFilter => ({
    fits: (flow) => flow.toLowerCase().includes(text.trim().toLowerCase()),
    problem,
    text,
  });
  if (text.trim() === "") return asText(null);
  try {
    const expression = new FilterParser(text).parse();
    const fits = (flow: string) => {
      const fields = fieldsOf(flow);
      try {
        return fields !== null && matches(expression, fields);
      } catch {
        // The expression asks for something that a flow's key does not have.
        return false;
      }
    };
    return { fits, problem: null, text };
  } catch (error) {
    return asText((error as Error).message);
  }
}

function fieldsOf(flow: string): PacketFields | null {
  const [dscp, vlan] = [/ dscp (\d+)/, / vlan (\d+)/].map((p) => p.exec(flow)?.[1]);
  const key = keyOf(flow.replace(/ (dscp|vlan) \d+/g, ""));
  const [src, dst] = [key?.src, key?.dst].map((a) => (a ? parseAddress(withoutPrefix(a)) : null));
  const version = src?.version ?? dst?.version;
  if (!key || !version) return null;
  return {
    version,
    ...(src ? { src: src.words } : {}),
    ...(dst ? { dst: dst.words } : {}),
    ...(key.proto === null ? {} : { proto: key.proto }),
    ...{ sport: key.sport, dport: key.dport, fragment: false, laterFragment: false },
    ...(dscp === undefined ? {} : { dscp: Number(dscp) }),
    vlan: vlan === undefined ? null : Number(vlan),
  };
}

function keyOf(text: string) {
  try {
    return parseFlowKey(text);
  } catch {
    return null;
  }
}
