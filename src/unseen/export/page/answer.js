// Probabilities of classes -> a verdict in words and the best guesses, as `unseen classify` has them.

const START = 0.1; // bits: what saying nothing is worth
const FLOOR = 0.02; // what is less probable is never a verdict
const USEFUL = 2; // bits
const [SURE, LIKELY] = [0.9, 0.7];
const FOLDED = 4; // classes considered for each guess

/** How probable each spoken name is, as it is stated, and a cautious value of it: both in the order of `spoken`. */
function weigh({ classes, rule, bits }, probabilities) {
  const [seen, unseen] = [new Float64Array(bits.length), new Float64Array(bits.length)];
  let gate = 0;
  classes.forEach(([isSeen, , ...names], at) => {
    const share = probabilities[at];
    if (isSeen) gate += share;
    const sums = isSeen ? seen : unseen;
    for (const name of names) if (name >= 0) sums[name] += share;
  });
  gate = Math.min(gate, 1);
  const cautious = bits.map((bit, at) => {
    unseen[at] *= Math.exp(-rule.detail * bit * bit);
    const shares = [-rule.doubt, rule.doubt].map((doubt) => {
      const factor = Math.exp(doubt);
      return (factor * seen[at] + unseen[at]) / (factor * gate + 1 - gate);
    });
    return Math.min(...shares);
  });
  const stated = bits.map((_, at) => {
    const inside = Math.min(Math.max(seen[at] + unseen[at], 1e-9), 1 - 1e-6);
    if (rule.stated_slope === 1 && rule.stated_offset === 0) return Math.min(seen[at] + unseen[at], 1);
    return 1 / (1 + Math.exp(-(rule.stated_slope * Math.log(inside / (1 - inside)) + rule.stated_offset)));
  });
  return { stated, cautious };
}

/** classes.json -> what answers need of it, once. */
export function prepare(file) {
  const counts = new Float64Array(file.spoken.length);
  for (const [, , ...names] of file.classes) for (const name of names) if (name >= 0) counts[name] += 1;
  return { ...file, bits: counts.map((count) => Math.log2(file.classes.length / count)) };
}

export function answer(known, probabilities, most = 5) {
  const { stated, cautious } = weigh(known, probabilities);
  const guesses = guess(known, probabilities, stated, most);
  return { verdict: judge(known, stated, cautious), guesses, calibrated: known.calibrated };
}

function judge({ classes, rule, spoken, bits }, stated, cautious) {
  const least = Math.min(USEFUL, Math.log2(Math.max(classes.length, 2)) / 3);
  let [best, worth] = [-1, START];
  bits.forEach((bit, at) => {
    const value = (bit + START) * cautious[at] ** rule.exponent;
    if (cautious[at] >= FLOOR && bit >= least && value > worth) [best, worth] = [at, value];
  });
  if (best < 0) return { id: null };
  const [article, say] = spoken[best];
  const hedge = stated[best] >= SURE ? "Sure" : stated[best] >= LIKELY ? "Likely" : "A guess";
  return { id: best, say, text: article + say, hedge, probability: stated[best] };
}

/** Up to `most` lines: a class with those above and below it, and those of its spoken name, is one. */
function guess({ classes, spoken, trainings, names }, probabilities, stated, most) {
  const order = Array.from(probabilities.keys()).sort((a, b) => probabilities[b] - probabilities[a]);
  const first = order.slice(0, FOLDED * most);
  const sayable = first.filter((at) => classes[at][2] >= 0);
  const lines = [];
  for (const at of sayable.length ? sayable : first) {
    const [isSeen, training, own, ...above] = classes[at];
    const related = (line) => own >= 0 && line.every((other) => own === other.own || above.includes(other.own) || other.above.includes(own));
    const same = lines.find((line) => related(line) || (own >= 0 && line.some((other) => other.own === own)));
    if (same) same.push({ own, above });
    else if (lines.length < most)
      lines.push(
        Object.assign([{ own, above }], {
          title: own < 0 ? names[at] : spoken[own][1],
          probability: own < 0 ? probabilities[at] : stated[own],
          training: trainings[training],
          mark: isSeen ? "seen" : "unseen",
        }),
      );
  }
  return lines.map(({ title, probability, training, mark }) => ({ title, probability, training, mark }));
}
