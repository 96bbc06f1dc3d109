import { test } from "vitest";
import { ClockObserver } from "../src/clock/observer.ts";
import { bothSeen, minima } from "../src/clock/wander.ts";
import { everydayScene } from "./support/everyday-scene.ts";

const seed = Number(process.env.SEED);
test("wan", () => {
  const s = everydayScene(seed);
  const o = new ClockObserver();
  for (const c of s.crossings)
    if (c.arrivedNs !== null) {
      const b = Number(
          s.stampOf("before", c.way === "forward" ? c.sentNs : c.arrivedNs) - s.stampOf("before", 0),
        ),
        d = Number(
          s.stampOf("after", c.way === "forward" ? c.arrivedNs : c.sentNs) -
            s.stampOf("before", c.way === "forward" ? c.sentNs : c.arrivedNs),
        );
      if (c.way === "forward") o.observe(Float64Array.of(b), Float64Array.of(d), 1);
      else o.observeReverse(Float64Array.of(b), Float64Array.of(d), 1);
    }
  const f = o.forward.points(),
    r = o.reverse.points();
  const both = bothSeen(f, r)!;
  console.log(s.name, f.length, r.length);
  for (const slices of [8, 16, 32, 64, 256]) {
    const a = minima(f, { ...both, slices }, () => 0),
      b = minima(r, { ...both, slices }, () => 0);
    const seen = a.flatMap((x, i) =>
      Number.isFinite(x + b[i]!) ? [{ c: (x - b[i]!) / 2, p: (x + b[i]!) / 2 }] : [],
    );
    const v = (k: "c" | "p") => {
      const m = seen.reduce((q, z) => q + z[k], 0) / seen.length;
      return seen.reduce((q, z) => q + (z[k] - m) ** 2, 0) / (seen.length - 1);
    };
    console.log(
      slices,
      seen.length,
      "ratio",
      v("c") / v("p"),
      "sd",
      Math.sqrt(v("c")) / 1e6,
      Math.sqrt(v("p")) / 1e6,
      slices <= 16 ? seen.map((z) => `${(z.c / 1e6).toFixed(2)}/${(z.p / 1e6).toFixed(2)}`).join(" ") : "",
    );
  }
});
