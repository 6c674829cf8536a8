// Keeps what the server sent for the panes: texts and cuts, by id. Nothing is drawn here.
const shared = window.__chunkscope ?? (window.__chunkscope = { sources: new Map(), owners: new Map(), waiting: new Set() });

export default function (component) {
  const { data: bytes, key, parentElement: element } = component;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const isKnown = shared.owners.get(key)?.id === header.id;
  shared.owners.set(key, { id: header.id, element });
  if (isKnown) return undefined;
  shared.sources.set(header.id, { header, payload: bytes.slice(4 + length) });
  // Only what a component on the page holds stays: older texts, and those of pages that were left, go.
  for (const [owner, held] of shared.owners) if (!held.element.isConnected) shared.owners.delete(owner);
  const held = new Set([...shared.owners.values()].map((each) => each.id));
  for (const id of shared.sources.keys()) if (!held.has(id)) shared.sources.delete(id);
  for (const draw of [...shared.waiting]) draw();
  return undefined;
}
