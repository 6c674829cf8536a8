// Draws a text, cut into segments of one look, as text nodes in blocks. Blocks near the view are filled at once, the others when
// the browser has nothing else to do.
const EVIDENCE = 1, MATCH = 2, STARTS = 4, BLANK = 8;
const BLOCK_CHARACTERS = 4000;
const SEGMENT_FIELDS = 4, CHUNK_FIELDS = 7;
const shared = window.__chunkscope ?? (window.__chunkscope = { sources: new Map(), owners: new Map(), waiting: new Set() });
const groups = window.__chunkscopeGroups ?? (window.__chunkscopeGroups = new Map());

function text(source) {
  source.text ??= new TextDecoder("utf-8", { ignoreBOM: true }).decode(source.payload);
  return source.text;
}

function numbers(source) {
  source.numbers ??= new Int32Array(source.payload.buffer);
  return source.numbers;
}

// The facts of one chunk, as `app/overlay/__init__.py` writes them.
function facts(cuts, chunk) {
  const at = cuts.header.segments * SEGMENT_FIELDS + chunk * CHUNK_FIELDS;
  const [tokens, characters, left, right, start, end, heading] = numbers(cuts).subarray(at, at + CHUNK_FIELDS);
  return { tokens, characters, left, right, start, end, heading: cuts.header.headings[heading] };
}

const counted = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

function note(cuts, chunk) {
  const { tokens, characters, left, right, heading } = facts(cuts, chunk);
  let words = `Chunk ${chunk + 1}: ${counted(tokens, "token")}, ${counted(characters, "character")}`;
  if (left || right) words += `\nOverlap: ${left} characters with the chunk before, ${right} with the next`;
  return heading ? `${words}\n${heading}` : words;
}

function look(first, last, bits) {
  let names = "seg";
  if (first >= 0) names += ` covered ${first !== last ? "shared" : first % 2 ? "odd" : "even"}`;
  else if (!(bits & BLANK)) names += " gap";
  if (bits & EVIDENCE) names += " evidence";
  if (bits & MATCH) names += " match";
  if (bits & STARTS && first >= 0) names += " begins";
  return names;
}

// Where to cut a long segment: a block is a box of its own, so it should begin with a line.
function piece(whole, from, end) {
  if (end - from <= 2 * BLOCK_CHARACTERS) return end;
  const line = whole.indexOf("\n", from + BLOCK_CHARACTERS);
  return line < 0 || line >= end ? end : line + 1;
}

// The blocks as stretches of the text with the segments in them, and for every chunk the blocks it reaches into. Builds no element.
function plan(whole, cuts) {
  const values = numbers(cuts);
  const blocks = [];
  const reach = Array.from({ length: cuts.header.chunks }, () => null);
  let block = null, filled = 0, offset = 0, ended = true;
  for (let segment = 0; segment < cuts.header.segments; segment += 1) {
    const at = segment * SEGMENT_FIELDS;
    const end = offset + values[at];
    do {
      // A very long segment is spread over several blocks, so that none is slow to lay out.
      if (block === null || (filled >= BLOCK_CHARACTERS && (ended || filled >= 4 * BLOCK_CHARACTERS))) {
        block = { offset, length: 0, parts: [], filled: false, element: null };
        blocks.push(block);
        filled = 0;
      }
      const to = piece(whole, offset, end);
      block.parts.push([at, offset, to, offset === end - values[at]]);
      for (let chunk = Math.max(0, values[at + 1]); chunk <= values[at + 2]; chunk += 1) {
        reach[chunk] ??= { from: blocks.length - 1, to: 0, head: -1 };
        reach[chunk].to = blocks.length - 1;
        if (chunk === values[at + 2] && reach[chunk].head < 0) reach[chunk].head = offset;
      }
      ended = to > 0 && whole.charCodeAt(to - 1) === 10;
      filled += to - offset;
      block.length += to - offset;
      offset = to;
    } while (offset < end);
  }
  return { blocks, reach };
}

function fill(state, block) {
  if (block.filled) return;
  block.filled = true;
  const values = numbers(state.cuts);
  const content = document.createDocumentFragment();
  for (const [at, from, to, isBeginning] of block.parts) {
    const first = values[at + 1], last = values[at + 2], bits = values[at + 3];
    const segment = document.createElement("span");
    segment.className = look(first, last, isBeginning ? bits : bits & ~STARTS);
    segment.textContent = state.text.slice(from, to);
    if (first >= 0) {
      segment.dataset.last = last;
      if (first !== last) segment.dataset.first = first;
      if (bits & STARTS && isBeginning) segment.dataset.number = last + 1;
      for (let chunk = first; chunk <= last; chunk += 1) {
        if (state.reach[chunk].head === from || (state.reach[chunk].head < 0 && !state.heads.has(chunk))) {
          state.heads.add(chunk);
          segment.id = `chunk-${chunk}`;
          segment.setAttribute("role", "option");
          segment.setAttribute("aria-selected", String(chunk === state.chosen));
        }
        if (chunk === state.chosen) segment.classList.add("chosen");
      }
    }
    content.append(segment);
  }
  block.element.replaceChildren(content);
  block.element.style.minHeight = "";
}

function draw(state) {
  const { pane } = state;
  Object.assign(state, plan(state.text, state.cuts));
  state.heads = new Set();
  const line = 23, perLine = Math.max(20, pane.clientWidth / 7);
  const content = document.createDocumentFragment();
  for (const block of state.blocks) {
    block.element = document.createElement("div");
    block.element.className = "block";
    const height = Math.ceil((1.2 * block.length * line) / perLine);
    block.element.style.containIntrinsicSize = `auto ${height}px`;
    block.element.style.minHeight = `${height}px`;
    content.append(block.element);
  }
  pane.replaceChildren(content);
  pane.scrollTop = 0;
  fillInView(state);
  fillWhenIdle(state, state.blocks, 0);
}

// All other blocks, so that the browser's own search and a screen reader find the whole text.
function fillWhenIdle(state, blocks, next) {
  const work = (deadline) => {
    if (state.blocks !== blocks || !state.pane.isConnected) return;
    let at = next;
    do { if (at < blocks.length) fill(state, blocks[at]); at += 1; } while (at < blocks.length && deadline.timeRemaining() > 4);
    if (at < blocks.length) fillWhenIdle(state, blocks, at);
  };
  // Safari has no idle callbacks.
  if (window.requestIdleCallback) requestIdleCallback(work, { timeout: 500 });
  else setTimeout(() => work({ timeRemaining: () => 0 }), 20);
}

// The last block that begins above a height of the pane. Blocks stand in order, so a few looks are enough.
function blockAtHeight(state, height) {
  let low = 0, high = state.blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (state.blocks[middle].element.offsetTop <= height) low = middle;
    else high = middle - 1;
  }
  return low;
}

function fillInView(state) {
  if (!state.blocks?.length) return;
  const { pane, blocks } = state;
  for (let at = blockAtHeight(state, pane.scrollTop); at < blocks.length; at += 1) {
    if (blocks[at].element.offsetTop > pane.scrollTop + 2 * pane.clientHeight) break;
    fill(state, blocks[at]);
  }
}

function blockOf(state, offset) {
  let low = 0, high = state.blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (state.blocks[middle].offset <= offset) low = middle;
    else high = middle - 1;
  }
  return state.blocks[low];
}

function segmentAt(state, offset) {
  const block = blockOf(state, offset);
  if (!block) return null;
  fill(state, block);
  return block.element.children[block.parts.findIndex(([, , to]) => to > offset)] ?? null;
}

function segmentsOf(state, chunk) {
  const place = state.reach?.[chunk];
  if (!place) return [];
  const values = numbers(state.cuts);
  return state.blocks.slice(place.from, place.to + 1).flatMap((block) => {
    fill(state, block);
    return block.parts.flatMap(([at], number) =>
      values[at + 1] <= chunk && chunk <= values[at + 2] ? [block.element.children[number]] : []);
  });
}

function mark(state, chunk, reveal) {
  const flag = (number, on) => {
    const segments = number === null ? [] : segmentsOf(state, number);
    for (const segment of segments) {
      segment.classList.toggle("chosen", on);
      if (segment.id === `chunk-${number}`) segment.setAttribute("aria-selected", String(on));
      if (on && segment.id === `chunk-${number}`) segment.setAttribute("aria-label", note(state.cuts, number));
    }
    return segments;
  };
  flag(state.chosen, false);
  state.chosen = chunk;
  const segments = flag(chunk, true);
  if (segments.length) state.pane.setAttribute("aria-activedescendant", `chunk-${chunk}`);
  else state.pane.removeAttribute("aria-activedescendant");
  tell(state);
  if (reveal && segments.length) show(state, segments[0]);
}

// What is known of the chosen chunk, at once; the details of the page follow when the server has answered.
function tell(state) {
  const { chosen: chunk, cuts, bar } = state;
  if (chunk === null || !state.reach[chunk]) {
    bar.textContent = state.reach.length ? "Click a chunk, or use ↓ and ↑." : "No chunks.";
    return;
  }
  const { tokens, characters, start, end, heading } = facts(cuts, chunk);
  const words = [
    `Chunk ${chunk + 1} of ${state.reach.length.toLocaleString("en")}: ${counted(tokens, "token")}, ${counted(characters, "character")}`,
    `at ${start.toLocaleString("en")} to ${end.toLocaleString("en")}`,
  ];
  if (heading) words.push(heading);
  bar.textContent = words.join(" · ");
  bar.title = heading;
}

// Scrolls the pane alone; scrollIntoView would move the page under the reader as well.
function show(state, element) {
  const { pane } = state;
  cancelAnimationFrame(state.staying);
  // Blocks out of view have an estimated height: later passes land on the real place.
  for (let pass = 0; pass < 3; pass += 1) {
    const top = element.getBoundingClientRect().top - pane.getBoundingClientRect().top;
    pane.scrollTop += top - pane.clientHeight / 3;
    fillInView(state);
  }
}

// The box of the line on which a character of a part of a filled block stands.
function lineOf(block, number, offset) {
  const node = block.element.children[number].firstChild, range = new Range();
  range.setStart(node, 0);
  range.setEnd(node, offset - block.parts[number][1] + 1);
  return [...range.getClientRects()].at(-1) ?? block.element.children[number].getBoundingClientRect();
}

// The first character of the line at the top of the pane, and as a fraction how far that line is out of view. Two panes may break the
// same text into other lines, so nothing coarser brings them to the same place.
function topOffset(state) {
  if (!state.blocks?.length) return 0;
  const { pane } = state;
  const block = state.blocks[blockAtHeight(state, pane.scrollTop)];
  fill(state, block);
  const top = pane.getBoundingClientRect().top;
  const number = [...block.element.children].findIndex((part) => part.getBoundingClientRect().bottom > top + 1);
  if (number < 0) return block.offset + block.length;
  const [, from, to] = block.parts[number];
  let low = from, high = to - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lineOf(block, number, middle).bottom > top + 1) high = middle;
    else low = middle + 1;
  }
  const line = lineOf(block, number, low);
  return low + Math.min(0.99, Math.max(0, (top - line.top) / Math.max(1, line.height)));
}

function scrollToOffset(state, offset) {
  if (!state.blocks?.length) return;
  const { pane } = state;
  const whole = Math.floor(offset), block = blockOf(state, whole);
  fill(state, block);
  const number = block.parts.findIndex(([, , to]) => to > whole);
  for (let pass = 0; pass < 2; pass += 1) {
    const line = number < 0 ? block.element.getBoundingClientRect() : lineOf(block, number, whole);
    const goal = number < 0 ? line.bottom : line.top + (offset - whole) * line.height;
    pane.scrollTop += goal - pane.getBoundingClientRect().top;
    fillInView(state);
  }
}

// Goes to an offset without leading the other panes there.
function goAlone(state, offset) {
  const before = state.pane.scrollTop;
  state.following = true;
  scrollToOffset(state, offset);
  if (state.pane.scrollTop === before) state.following = false;
}

// Goes to an offset and stays there while the blocks around it get their real heights, frame by frame, unless the reader scrolls.
function stayAt(state, offset, frames = 30) {
  cancelAnimationFrame(state.staying);
  goAlone(state, offset);
  if (frames > 0) state.staying = requestAnimationFrame(() => stayAt(state, offset, frames - 1));
}

// Where the pane was, or, for one that is new, where those it scrolls with are.
function placeToKeep(state, peers) {
  if (state.signature !== undefined) return topOffset(state);
  const peer = [...peers].find((each) => each !== state && each.pane.isConnected && each.blocks?.length);
  return peer ? topOffset(peer) : 0;
}

// Whether a selection is the echo of a choice made here. While a newer choice is on its way, an older echo must not undo it.
function heard(state, selected) {
  const place = state.sent.lastIndexOf(selected);
  if (place >= 0) state.sent.splice(0, place + 1);
  else if (selected !== state.seen) state.sent = [];
  state.seen = selected;
  return place >= 0;
}

function choose(state, chunk, reveal, wait) {
  mark(state, chunk, reveal);
  clearTimeout(state.timer);
  const send = () => {
    state.timer = undefined;
    if (!state.pane.isConnected) return;
    state.sent.push(chunk);
    state.send(chunk);
  };
  // Keys repeat: only where they come to rest is sent.
  state.timer = setTimeout(send, wait);
}

function update(state, data, peers) {
  const source = shared.sources.get(data.text), cuts = shared.sources.get(data.cuts);
  if (!source || !cuts) return;
  shared.waiting.delete(state.wake);
  const signature = `${data.text} ${data.cuts}`;
  if (state.signature !== signature) {
    const place = placeToKeep(state, peers);
    Object.assign(state, { signature, text: text(source), cuts, chosen: null, sent: [] });
    draw(state);
    if (place) stayAt(state, place);
    tell(state);
  }
  const echoed = heard(state, data.selected);
  if (data.selected !== state.chosen && state.timer === undefined && !state.sent.length) mark(state, data.selected, !echoed);
  if (data.reveal && data.reveal[1] !== state.revealed) {
    state.revealed = data.reveal[1];
    const segment = segmentAt(state, data.reveal[0]);
    if (segment) {
      show(state, segment);
      for (const old of state.pane.querySelectorAll(".here")) old.classList.remove("here");
      segment.classList.add("here");
    }
  }
}

function follow(state, group) {
  const peers = groups.get(group) ?? new Set();
  if (group) {
    groups.set(group, peers);
    peers.add(state);
  }
  state.pane.onscroll = () => {
    cancelAnimationFrame(state.frame);
    const led = state.following;
    state.following = false;
    state.frame = requestAnimationFrame(() => {
      fillInView(state);
      if (led || !group) return;
      const offset = topOffset(state);
      for (const peer of peers) {
        if (peer === state || !peer.pane.isConnected) continue;
        goAlone(peer, offset);
      }
    });
  };
  return peers;
}

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const pane = parentElement.querySelector(".pane");
  const bar = parentElement.querySelector(".facts");
  pane.style.height = `${data.height - 36}px`;
  pane.setAttribute("aria-label", data.label);
  const state = pane.__state ?? (pane.__state = { pane, bar, chosen: null, sent: [], reach: [] });
  state.send = (chunk) => setStateValue("chosen", chunk);
  const peers = follow(state, data.group);
  pane.onwheel = pane.onpointerdown = () => cancelAnimationFrame(state.staying);

  pane.onclick = (event) => {
    const segment = event.target.closest(".covered");
    if (segment) choose(state, Number(segment.dataset.last), false, 0);
  };
  // A note is written when the pointer arrives: thousands of them would slow the first look.
  pane.onmouseover = (event) => {
    const segment = event.target.closest(".seg");
    if (!segment || segment.title || !state.cuts) return;
    const { first, last } = segment.dataset;
    if (last !== undefined) {
      segment.title = note(state.cuts, Number(last)) + (first === undefined ? "" : `\nShared with chunk ${Number(first) + 1}`);
    } else if (segment.classList.contains("gap")) segment.title = "In no chunk";
  };
  pane.onkeydown = (event) => {
    const end = state.reach.length - 1;
    const now = state.chosen ?? -1;
    const target = {
      ArrowDown: Math.min(end, now + 1), j: Math.min(end, now + 1),
      ArrowUp: Math.max(0, now - 1), k: Math.max(0, now - 1),
      Home: 0, End: end, Enter: Math.max(0, now), Escape: null,
    };
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    // Streamlit reruns the page on a bare r and clears its cache on c.
    event.stopPropagation();
    if (!(event.key in target) || end < 0) return;
    event.preventDefault();
    choose(state, target[event.key], true, 80);
  };

  shared.waiting.delete(state.wake);
  state.wake = () => update(state, data, peers);
  shared.waiting.add(state.wake);
  update(state, data, peers);
  // A choice that is about to be sent outlives this draw: the next one has the same pane.
  return () => {
    peers.delete(state);
    shared.waiting.delete(state.wake);
  };
}
