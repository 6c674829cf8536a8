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
  let block = null, filled = 0, offset = 0, ended = true;
  for (const [text, first, last, bits] of data.segments) {
    // A very long segment is spread over several blocks, so that none is slow to lay out.
    for (let from = 0; from < text.length || from === 0; ) {
      if (block === null || (filled >= BLOCK_CHARACTERS && (ended || filled >= 4 * BLOCK_CHARACTERS))) {
        block = document.createElement("div");
        block.className = "block";
        block.dataset.offset = offset;
        content.append(block);
        filled = 0;
      }
      const to = piece(text, from);
      const segment = document.createElement("span");
      segment.className = look(first, last, from ? bits & ~STARTS : bits);
      segment.textContent = text.slice(from, to);
      if (first >= 0) {
        segment.dataset.last = last;
        segment.title = data.notes[last] + (first !== last ? `\nShared with chunk ${first + 1}` : "");
        if (bits & STARTS && !from) segment.dataset.number = last + 1;
        for (let chunk = first; chunk <= last; chunk += 1) byChunk[chunk].push(segment);
      } else if (!(bits & BLANK)) {
        segment.title = "In no chunk";
      }
      block.append(segment);
      ended = segment.textContent.endsWith("\n");
      filled += to - from;
      offset += to - from;
      from = to;
      if (!text.length) break;
    }
  }
  byChunk.forEach((segments, chunk) => {
    const head = segments.find((one) => Number(one.dataset.last) === chunk) ?? segments[0];
    if (!head) return;
    head.id = `chunk-${chunk}`;
    head.setAttribute("role", "option");
    head.setAttribute("aria-label", data.notes[chunk]);
    head.setAttribute("aria-selected", "false");
  });
  pane.replaceChildren(content);
  return byChunk;
}

// Where to cut a long segment: a block is a box of its own, so it should begin with a line.
function piece(text, from) {
  if (text.length - from <= 2 * BLOCK_CHARACTERS) return text.length;
  const line = text.indexOf("\n", from + BLOCK_CHARACTERS);
  return line < 0 ? text.length : line + 1;
}

function mark(state, chunk, reveal) {
  const flag = (number, on) => {
    for (const segment of state.byChunk[number] ?? []) {
      segment.classList.toggle("chosen", on);
      if (segment.id) segment.setAttribute("aria-selected", String(on));
    }
  };
  flag(state.chosen, false);
  state.chosen = chunk;
  flag(chunk, true);
  const segments = chunk === null ? [] : state.byChunk[chunk] ?? [];
  if (segments.length) state.pane.setAttribute("aria-activedescendant", `chunk-${chunk}`);
  else state.pane.removeAttribute("aria-activedescendant");
  if (reveal && segments.length) show(state.pane, segments[0]);
}

// Scrolls the pane alone; scrollIntoView would move the page under the reader as well.
function show(pane, element) {
  // Blocks out of view have an estimated height: the second pass lands on the real place.
  for (let pass = 0; pass < 2; pass += 1) {
    const top = element.getBoundingClientRect().top - pane.getBoundingClientRect().top;
    pane.scrollTop += top - pane.clientHeight / 3;
  }
}

function topOffset(pane) {
  const top = pane.getBoundingClientRect().top;
  for (const block of pane.children) {
    const box = block.getBoundingClientRect();
    if (box.bottom > top) return Number(block.dataset.offset) + Math.max(0, (top - box.top) / box.height) * block.textContent.length;
  }
  return 0;
}

function scrollToOffset(pane, offset, align = 0) {
  const block = [...pane.children].findLast((one) => Number(one.dataset.offset) <= offset);
  if (!block) return;
  const inside = (offset - Number(block.dataset.offset)) / Math.max(1, block.textContent.length);
  for (let pass = 0; pass < 2; pass += 1) {
    const top = block.getBoundingClientRect().top - pane.getBoundingClientRect().top;
    pane.scrollTop += top + inside * block.getBoundingClientRect().height - align * pane.clientHeight;
  }
}

function segmentAt(pane, offset) {
  const block = [...pane.children].findLast((one) => Number(one.dataset.offset) <= offset);
  let at = block ? Number(block.dataset.offset) : 0;
  for (const segment of block?.children ?? []) {
    at += segment.textContent.length;
    if (at > offset) return segment;
  }
  return null;
}

// Whether a selection is the echo of a choice made here. While a newer choice is on its way, an older echo must not undo it.
function heard(state, selected) {
  const place = state.sent.lastIndexOf(selected);
  if (place >= 0) state.sent.splice(0, place + 1);
  else if (selected !== state.seen) state.sent = [];
  state.seen = selected;
  return place >= 0;
}

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const pane = parentElement.querySelector(".pane");
  pane.style.height = `${data.height - 8}px`;
  pane.setAttribute("aria-label", data.label);
  const state = pane.__state ?? (pane.__state = { pane, chosen: null, byChunk: [], sent: [] });
  state.send = (chunk) => setStateValue("chosen", chunk);
  if (state.signature !== data.signature) {
    const place = state.signature === undefined ? 0 : topOffset(pane);
    state.byChunk = draw(pane, data);
    state.signature = data.signature;
    state.chosen = null;
    state.sent = [];
    if (place) scrollToOffset(pane, place);
  }
  const echoed = heard(state, data.selected);
  if (data.selected !== state.chosen && state.timer === undefined && !state.sent.length) mark(state, data.selected, !echoed);
  if (data.reveal && data.reveal[1] !== state.revealed) {
    state.revealed = data.reveal[1];
    const segment = segmentAt(pane, data.reveal[0]);
    if (segment) {
      show(pane, segment);
      for (const old of pane.querySelectorAll(".here")) old.classList.remove("here");
      segment.classList.add("here");
    }
  }

  const choose = (chunk, reveal) => {
    mark(state, chunk, reveal);
    clearTimeout(state.timer);
    state.timer = setTimeout(() => {
      state.timer = undefined;
      if (!pane.isConnected) return;
      state.sent.push(chunk);
      state.send(chunk);
    }, 80);
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
      Home: 0, End: last, Enter: Math.max(0, now), Escape: null,
    };
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    // Streamlit reruns the page on a bare r and clears its cache on c.
    event.stopPropagation();
    if (!(event.key in target) || last < 0) return;
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
          const before = peer.scrollTop;
          peer.__following = true;
          scrollToOffset(peer, offset);
          if (peer.scrollTop === before) peer.__following = false;
        }
      });
    };
  } else {
    pane.onscroll = null;
  }
  // A choice that is about to be sent outlives this draw: the next one has the same pane.
  return () => peers.delete(pane);
}
