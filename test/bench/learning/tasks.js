/**
 * Tasks with rewards that can be checked, for the curves of `learn.js`: what the model is asked, what is right, what is held out.
 *
 * Held-out questions are never trained on. A task is data, so that the reference program in Python asks the same; the one with
 * tools is an environment (`test/examples/weather.js`). A question with a `call` has two turns: only who makes the call is shown
 * its `result`. That is a tool for models whose chat template knows none.
 */

const NAMES = ['Anna', 'Tom', 'Mia', 'Omar', 'Lena', 'Ravi']
const MAILS = [
  (order, name) => `Hello, where is order ${order}? Regards, ${name}.`,
  (order, name) => `My order ${order} is late. ${name}`,
  (order, name) => `Order ${order} came today. Thank you, ${name}.`,
]
const WORDS =
  'cat dog sun map pen cup hat bed car bus egg fox jam key leg net owl pig rat toy van web box arm ant bag bat bee cow day ear ' +
  'fan gas hen ice ink jar kid lip man nut oil pan red rug sea tea top war wig zoo air big cut dry eat far hot low new old'
const CITIES =
  'Paris Rome Cairo Lima Oslo Tokyo Berlin London Madrid Dublin Athens Lisbon Vienna Prague Delhi Warsaw Boston Chicago Sydney ' +
  'Toronto Dallas Miami Zurich Geneva Milan Naples Havana Moscow Seoul Hanoi Lagos Tunis Dakar Quito Bogota Denver Seattle ' +
  'Munich Hamburg Lyon'

/** Format: only the number, nothing else. 0.4 for an answer that holds it, 1 for one that is it. */
function orderNumbers() {
  const mails = Array.from({ length: 80 }, (_, i) => {
    const [answer, name, mail] = [String(11 + i), NAMES[i % NAMES.length], MAILS[i % MAILS.length]]
    return {
      prompt: `${mail(answer, name)} Which number is the order?`,
      answer,
      wrong: `Your order number is ${answer}.`,
    }
  })
  return everyOther(mails)
}

/** Arithmetic with a rule: which of two numbers is larger; 1 for the number alone, 0 for anything else. */
function largerNumbers() {
  const pairs = Array.from({ length: 80 }, (_, i) => {
    const [a, b] = [1 + ((i * 37) % 97), 1 + ((i * 61 + 40) % 97)]
    return { prompt: `Which is larger, ${a} or ${b}?`, answer: String(Math.max(a, b)), wrong: String(Math.min(a, b)) }
  })
  return everyOther(pairs)
}

/** The larger number among twice as many products that this model never finds: most of what is asked teaches nothing. */
function largerAmongProducts() {
  const { training, heldOut } = largerNumbers()
  const products = Array.from({ length: 2 * training.length }, (_, i) => {
    const [a, b] = [23 + ((i * 37) % 71), 23 + ((i * 29 + 11) % 71)]
    return { prompt: `How much is ${a} times ${b}?`, answer: String(a * b), wrong: String(a + b) }
  })
  return { training: training.flatMap((each, i) => [each, ...products.slice(2 * i, 2 * i + 2)]), heldOut }
}

/** Letters: a short word backwards; 1 for the word alone, 0 for anything else. */
function reversedWords() {
  return everyOther(
    WORDS.split(' ').map((word) => ({
      prompt: `Reverse the word ${word}.`,
      answer: [...word].reverse().join(''),
      wrong: word,
    })),
  )
}

/** Two turns: ask the station, then say the temperature that it reports beside the wind. */
function stations() {
  const questions = CITIES.split(' ').map((city, i) => {
    const [degrees, wind] = [11 + ((i * 7) % 20), 31 + ((i * 13) % 29)]
    const report = i % 4 < 2 ? `wind ${wind}, warmth ${degrees}` : `warmth ${degrees}, wind ${wind}`
    return {
      prompt: `How warm is it in ${city}? Write ASK and the city, and the station reports.`,
      call: `ASK ${city}`,
      result: `${city}: ${report}.`,
      answer: String(degrees),
    }
  })
  return everyOther(questions)
}

function everyOther(questions) {
  return {
    training: questions.filter((_, i) => i % 2 === 0),
    heldOut: questions.filter((_, i) => i % 2 === 1),
  }
}

const cities = (text) => text.split(' ').map((city) => ({ city }))

/**
 * `partial` is the reward of an answer that only holds what is right; `perStep` questions are asked `size` times before each job,
 * each held-out question `heldOutSize` times after it. `wrong` is the answer that preferences reject.
 */
export const TASKS = {
  order: { title: 'an order number', ...orderNumbers(), partial: 0.4, perStep: 20, size: 8, heldOutSize: 4 },
  larger: { title: 'the larger number', ...largerNumbers(), partial: 0, perStep: 20, size: 8, heldOutSize: 4 },
  mixed: {
    title: 'the larger number among products',
    ...largerAmongProducts(),
    partial: 0,
    perStep: 20,
    size: 8,
    heldOutSize: 4,
  },
  reverse: { title: 'a word backwards', ...reversedWords(), partial: 0, perStep: 30, size: 8, heldOutSize: 4 },
  station: { title: 'a question to a station', ...stations(), partial: 0, perStep: 10, size: 8, heldOutSize: 4 },
  tools: {
    title: 'a tool over several turns',
    training: cities('Paris Cairo Oslo Berlin Madrid Athens Vienna Delhi'),
    heldOut: cities('Rome Lima Tokyo London Dublin Lisbon Prague Warsaw'),
    hasTools: true,
    perStep: 8,
    size: 8,
    heldOutSize: 12,
  },
}

/** An episode of two turns: 0.2 for the call, 0.8 for an answer whose only number is the right one. */
export function stationEpisode({ prompt, call, result, answer }) {
  let isCalled = false
  return {
    reset: () => ({ messages: [{ role: 'user', content: prompt }] }),
    step({ content }) {
      if (!isCalled && content.trim() === call) {
        isCalled = true
        return { reward: 0.2, messages: [{ role: 'user', content: result }] }
      }
      const numbers = content.match(/[0-9]+/g) ?? []
      return { isDone: true, reward: isCalled && numbers.length === 1 && numbers[0] === answer ? 0.8 : 0 }
    },
  }
}

/** Reward of an answer to a question of one turn. */
export function rewardOf(task, answer, expected) {
  const text = answer.trim()
  if (text === expected) return 1
  return text.includes(expected) ? task.partial : 0
}
