// Draws text segments as text nodes in blocks the browser can skip while they are out of view.
const EVIDENCE = 1, MATCH = 2, STARTS = 4, BLANK = 8;
const BLOCK_CHARACTERS = 4000;
const panes = window.__chunkscopePanes ?? (window.__chunkscopePanes = new Map());

function look(first, last, bits) {
  const names = ["seg"];
  if (first >= 0) names.push("covered", first !== last ? "shared" : first % 2 ? "odd" : "even");
  else if (!(bits & BLANK)) names.push("gap");
  if (bits & EVIDENCE) names.push("evidence");
  if (bits & MATCH) names.push("match");
  if (bits & STARTS && first >= 0) names.push("begins");
  return names.join(" ");
}

function draw(pane, data) {
  const content = document.createDocumentFragment();
  const byChunk = data.notes.map(() => []);
  let block = null, filled = 0, offset = 0;
  for (const [text, first, last, bits] of data.segments) {
    if (block === null || filled >= BLOCK_CHARACTERS) {
      block = document.createElement("div");
      block.className = "block";
      block.dataset.offset = offset;
      content.append(block);
      filled = 0;
    }
    const segment = document.createElement("span");
    segment.className = look(first, last, bits);
    segment.textContent = text;
    if (first >= 0) {
      segment.dataset.last = last;
      segment.title = data.notes[last] + (first !== last ? `\nShared with chunk ${first + 1}` : "");
      if (bits & STARTS) segment.dataset.number = last + 1;
      for (let chunk = first; chunk <= last; chunk += 1) byChunk[chunk].push(segment);
    } else if (!(bits & BLANK)) {
      segment.title = "In no chunk";
    }
    block.append(segment);
    filled += text.length;
    offset += text.length;
  }
  pane.replaceChildren(content);
  return byChunk;
}

function mark(state, chunk, reveal) {
  for (const segment of state.byChunk[state.chosen] ?? []) segment.classList.remove("chosen");
  state.chosen = chunk;
  const segments = chunk === null ? [] : state.byChunk[chunk] ?? [];
  for (const segment of segments) segment.classList.add("chosen");
  state.pane.setAttribute("aria-label", chunk === null ? state.label : `${state.label}. ${state.notes[chunk] ?? ""}`);
  if (reveal && segments.length) segments[0].scrollIntoView({ block: "center" });
}

function topOffset(pane) {
  const top = pane.getBoundingClientRect().top;
  for (const block of pane.children) {
    const box = block.getBoundingClientRect();
    if (box.bottom > top) return Number(block.dataset.offset) + Math.max(0, (top - box.top) / box.height) * block.textContent.length;
  }
  return 0;
}

function scrollToOffset(pane, offset) {
  const blocks = [...pane.children];
  const block = blocks.findLast((one) => Number(one.dataset.offset) <= offset);
  if (!block) return;
  const inside = (offset - Number(block.dataset.offset)) / Math.max(1, block.textContent.length);
  const top = block.getBoundingClientRect().top - pane.getBoundingClientRect().top;
  pane.scrollTop += top + inside * block.getBoundingClientRect().height;
}

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const pane = parentElement.querySelector(".pane");
  pane.style.height = `${data.height - 8}px`;
  const state = pane.__state ?? (pane.__state = { pane, chosen: null, byChunk: [], notes: [], label: "" });
  state.notes = data.notes;
  state.label = data.label;
  if (state.signature !== data.signature) {
    state.byChunk = draw(pane, data);
    state.signature = data.signature;
    state.chosen = null;
  }
  if (data.selected !== state.chosen) mark(state, data.selected, data.selected !== state.sent);

  const choose = (chunk, reveal) => {
    state.sent = chunk;
    mark(state, chunk, reveal);
    clearTimeout(state.timer);
    state.timer = setTimeout(() => setStateValue("chosen", chunk), 80);
  };
  pane.onclick = (event) => {
    const segment = event.target.closest(".covered");
    if (segment) choose(Number(segment.dataset.last), false);
  };
  pane.onkeydown = (event) => {
    const last = state.byChunk.length - 1;
    const now = state.chosen ?? -1;
    const target = {
      ArrowDown: Math.min(last, now + 1), j: Math.min(last, now + 1),
      ArrowUp: Math.max(0, now - 1), k: Math.max(0, now - 1),
      Home: 0, End: last, Escape: null,
    };
    event.stopPropagation();
    if (!(event.key in target) || event.ctrlKey || event.metaKey || event.altKey || last < 0) return;
    event.preventDefault();
    choose(target[event.key], true);
  };

  const peers = panes.get(data.group) ?? new Set();
  if (data.group) {
    panes.set(data.group, peers);
    peers.add(pane);
    pane.onscroll = () => {
      if (pane.__following) { pane.__following = false; return; }
      cancelAnimationFrame(state.frame);
      state.frame = requestAnimationFrame(() => {
        const offset = topOffset(pane);
        for (const peer of peers) {
          if (peer === pane || !peer.isConnected) continue;
          peer.__following = true;
          scrollToOffset(peer, offset);
        }
      });
    };
  } else {
    pane.onscroll = null;
  }
  return () => {
    peers.delete(pane);
    clearTimeout(state.timer);
  };
}
