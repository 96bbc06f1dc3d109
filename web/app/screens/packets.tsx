/** Packets from the records of MAPLE, by flow and time or by a capture: distribution, slowest packets, CSV. */
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { askCapture } from "../api/capture-packets.ts";
import { post } from "../api/client.ts";
import type { KnownSegment, SegmentName } from "../api/types.ts";
import { useAnswer } from "../api/use-answer.ts";
import { Actions, csvOf } from "../parts/actions.tsx";
import { queryCommand, spanParts } from "../parts/command.ts";
import { type PacketAnswer, PacketGroups, packetRows } from "../parts/packet-groups.tsx";
import { SegmentSelect, WithSegment } from "../parts/segment-select.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { countText, spanText } from "../parts/text.ts";
import { param, setParams } from "../state/location.ts";
import { useCalmRange } from "../state/series.ts";
import { nsText } from "../state/time-range.ts";

/** Group key for packets that no flow was given for. */
const LISTED_GROUP = "host";
const WORST = 20;
const TOP = 50;

/** The capture that was dropped or selected; a URL cannot contain it. */
const capture = signal<{ file: File; filter: string } | null>(null);

interface Form {
  flow: string;
  digests: string;
  ipid: string;
}

const formOf = (): Form => ({
  flow: param("flow") ?? "",
  digests: param("packet") ?? "",
  ipid: param("ipid") ?? "",
});

export function PacketsScreen() {
  const asked = param("ask") !== null || param("flow") !== null;
  const given = capture.value;
  useEffect(watchDrops, []);
  return (
    <>
      <h1>Packets</h1>
      <p class="muted">
        Delays of single packets in the time shown, where the receiver of the segment keeps records of maple.
        Name a flow, packets by their digests, or neither for all flows that the records list; or drop a
        capture here: it is read in this browser, and only digests are sent.
      </p>
      <WithSegment>
        {(own, all) => (
          <>
            <Question own={own} all={all} key={JSON.stringify([formOf(), own])} />
            <CaptureChoice />
            {given ? (
              <CaptureAnswer {...given} segment={own} />
            ) : (
              asked && <Answer form={formOf()} segment={own} key={JSON.stringify([formOf(), own])} />
            )}
          </>
        )}
      </WithSegment>
    </>
  );
}

function Question({ own, all }: { own: KnownSegment; all: readonly KnownSegment[] }) {
  const [form, setForm] = useState(formOf);
  const set = (name: keyof Form) => (e: { currentTarget: HTMLInputElement }) =>
    setForm({ ...form, [name]: e.currentTarget.value });
  return (
    <form
      class="form card"
      onSubmit={(event) => {
        event.preventDefault();
        capture.value = null;
        const { digests: packet, ...rest } = form;
        setParams({ ...rest, packet, ask: "1" });
      }}
    >
      <SegmentSelect own={own} all={all} keep={{ flow: form.flow, ask: param("ask") }} />
      <label>
        Flow
        <input
          class="wide"
          type="text"
          spellcheck={false}
          placeholder="tcp 10.0.0.1:443 > 10.0.0.9:51000"
          value={form.flow}
          onInput={set("flow")}
        />
      </label>
      <label>
        IPIDs of the flow
        <input type="text" placeholder="100-250,300" value={form.ipid} onInput={set("ipid")} />
      </label>
      <label>
        or digests
        <input
          type="text"
          spellcheck={false}
          placeholder="5be0cd19137e2179"
          value={form.digests}
          onInput={set("digests")}
        />
      </label>
      <button type="submit" class="plain-button">
        Ask
      </button>
    </form>
  );
}

/** Captures can be dropped anywhere on the screen. */
function watchDrops(): () => void {
  const over = (event: DragEvent) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file) capture.value = { file, filter: capture.value?.filter ?? "" };
  };
  addEventListener("dragover", over);
  addEventListener("drop", drop);
  return () => {
    removeEventListener("dragover", over);
    removeEventListener("drop", drop);
  };
}

function CaptureChoice() {
  const given = capture.value;
  return (
    <div class="form card">
      <label>
        Packets of a capture
        <input
          type="file"
          onChange={({ currentTarget: { files } }) => {
            const file = files?.[0];
            if (file) capture.value = { file, filter: given?.filter ?? "" };
          }}
        />
      </label>
      {given && (
        <>
          <label>
            Filter
            <input
              type="text"
              spellcheck={false}
              placeholder="udp and dst net 10.2.0.0/16"
              value={given.filter}
              onChange={(e) => {
                capture.value = { ...given, filter: e.currentTarget.value.trim() };
              }}
            />
          </label>
          <button type="button" class="plain-button" onClick={() => (capture.value = null)}>
            Without the capture
          </button>
        </>
      )}
    </div>
  );
}

function CaptureAnswer({ file, filter, segment }: { file: File; filter: string; segment: SegmentName }) {
  const { to, label } = segment;
  const asked = useAnswer(
    JSON.stringify([file.name, file.size, file.lastModified, filter, to, label]),
    (gone) =>
      askCapture(
        file,
        {
          ...{ point: to, segment: label === "" ? undefined : label, filter },
          ...{ group: undefined, top: TOP, worst: WORST },
        },
        gone,
      ),
  );
  const command = queryCommand(
    ["--capture", file.name],
    ["--filter", filter],
    ["--point", to],
    ["--segment", label],
    ["--top", String(TOP)],
    ["--worst", String(WORST)],
  );
  return (
    <section class="card" aria-label="Answer">
      <div class="card-head">
        <p>{file.name}</p>
        <Actions name="packets" command={command} csv={() => csvOf(packetRows(asked.data))} />
      </div>
      <Answered asked={asked} what="the packets (reading the capture, then asking for them)">
        {(answer) => <AnswerBody answer={answer} />}
      </Answered>
    </section>
  );
}

const digestsIn = (text: string): string[] => text.split(/[\s,]+/).filter((d) => d !== "");

function questionOf({ flow, digests, ipid }: Form, { to, label }: SegmentName): Record<string, unknown> {
  const named = digestsIn(digests);
  return {
    ...(named.length > 0
      ? { digests: named }
      : flow !== ""
        ? { flows: [flow], ...(ipid === "" ? {} : { ipid }) }
        : { group: LISTED_GROUP, top: TOP }),
    point: to,
    ...(label === "" ? {} : { segment: label }),
    worst: WORST,
  };
}

function commandOf(
  { flow, digests, ipid }: Form,
  { to, label }: SegmentName,
  span: { fromMs: number; toMs: number },
): string {
  const named = digestsIn(digests);
  const asked: [string, ...string[]][] =
    named.length > 0
      ? [["--packet", ...named]]
      : flow !== ""
        ? [
            ["--flow", flow],
            ["--ipid", ipid],
          ]
        : [
            ["--group", LISTED_GROUP],
            ["--top", String(TOP)],
          ];
  return queryCommand(...asked, ["--point", to], ["--segment", label], ...spanParts(span), [
    "--worst",
    String(WORST),
  ]);
}

function Answer({ form, segment }: { form: Form; segment: SegmentName }) {
  const range = useCalmRange();
  // A question is answered once: it reads records, so it is not repeated as time moves on.
  const [span, setSpan] = useState(range);
  const asked = useAnswer(`${JSON.stringify(form)} ${span.key}`, (signal) =>
    post<PacketAnswer>(
      "/v1/packets",
      { ...questionOf(form, segment), from: nsText(span.fromMs), to: nsText(span.toMs) },
      signal,
    ),
  );
  return (
    <section class="card" aria-label="Answer">
      <div class="card-head">
        <p>
          {spanText(span.fromMs, span.toMs)}{" "}
          {(span.key !== range.key || span.refresh !== range.refresh) && (
            <button type="button" class="chip" onClick={() => setSpan(range)}>
              Ask again for the time shown
            </button>
          )}
        </p>
        <Actions
          name="packets"
          command={commandOf(form, segment, span)}
          csv={() => csvOf(packetRows(asked.data))}
        />
      </div>
      <Answered asked={asked} what="the packets (read from the records)">
        {(answer) => <AnswerBody answer={answer} />}
      </Answered>
    </section>
  );
}

function AnswerBody({ answer }: { answer: PacketAnswer }) {
  return answer.packets === 0 ? (
    <Empty title="The records list no such packets">
      <p>
        {answer.notes.join(" ") ||
          answer.epochs.refused[0]?.reason ||
          "Another flow or another time may have some."}
      </p>
    </Empty>
  ) : (
    <>
      <p>
        {countText(answer.packets)} packets at {answer.points.map((p) => p.name).join(", ")}:{" "}
        {countText(answer.matched)} with an answer, {countText(answer.multi)} guessed,{" "}
        {countText(answer.missing)} not found
      </p>
      <PacketGroups answer={answer} />
      {answer.notes.length > 0 && (
        <ul class="sentences">
          {answer.notes.map((n) => (
            <li key={n}>{n}</li>
          ))}
        </ul>
      )}
    </>
  );
}
