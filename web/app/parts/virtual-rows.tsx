/** Renders only the rows of a long table near the visible area; the rest is empty space. The page scrolls, not the table. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const ROW_PX = 40;
const BEYOND = 12;
/** Number of rows rendered at once; more follow when the height of the screen is known. */
const FIRST = 20;

export function VirtualRows<T>({
  rows,
  columns,
  row,
}: {
  rows: readonly T[];
  columns: number;
  row: (item: T, index: number) => ComponentChildren;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [span, setSpan] = useState<readonly [number, number]>([0, FIRST]);
  useEffect(() => {
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / ROW_PX) - BEYOND);
      const last = Math.ceil((innerHeight - top) / ROW_PX) + BEYOND;
      setSpan((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, []);
  const [first, last] = [Math.min(span[0], rows.length), Math.min(span[1], rows.length)];
  const room = (count: number) =>
    count > 0 && (
      <tr aria-hidden="true">
        <td colSpan={columns} class="room" style={{ height: `${count * ROW_PX}px` }} />
      </tr>
    );
  return (
    <tbody ref={body}>
      {room(first)}
      {rows.slice(first, last).map((item, i) => row(item, first + i))}
      {room(rows.length - last)}
    </tbody>
  );
}
