/** The head of a table without sorting (with sorting: sort-head.tsx): titles with the class of each. */
export function Heads({ of }: { of: readonly (readonly [title: string, kind?: string])[] }) {
  return (
    <thead>
      <tr>
        {of.map(([title, kind]) => (
          <th key={title} scope="col" class={kind}>
            {title}
          </th>
        ))}
      </tr>
    </thead>
  );
}
