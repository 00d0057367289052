/**
 * Small talk as prompts: what somebody says about themselves, and words of which a fitting reply has at least one.
 *
 * Shared by the tasks that teach a manner of replying. Kinds alternate in the list, so that any even split has all of them.
 */
import { maxOf } from '#base/util/lists.js'
import { capitalize, wordsOf } from './task.js'

// names and words that are asked about: few, as they ship with the package
const split = (text: string): readonly string[] => text.trim().split(/\s+/)

const NAMES = split(`
Anna Ben Clara David Emma Felix Grace Henry Ivy Jack Kate Leo Mia Noah Olivia Paul Rosa Sam Tara Victor Wendy Adam Bella
Carl Diana Ethan Fiona George Hannah Ian`)

const CITIES = split(`
Boston Chicago Denver Miami Seattle Toronto Sydney Mumbai Osaka Seoul Athens Rome Milan Venice Madrid Lisbon Paris Lyon
Berlin Hamburg Vienna Zurich Prague Warsaw Oslo Dublin London Oxford Cairo Lima`)

const HOBBIES = split(`
reading swimming painting cooking dancing singing hiking fishing gardening running cycling drawing knitting skiing baking
writing traveling camping`)

const JOBS = split(`
teacher doctor nurse farmer baker pilot painter writer singer driver lawyer cook gardener carpenter dentist librarian
plumber waiter tailor student scientist musician`)

const SAD = split('sad tired sick lonely angry worried bored stressed unhappy nervous')

const GLAD = split('happy great good fine excited cheerful proud lucky')

/** One thing to say. */
export interface Remark {
  readonly prompt: string
  readonly kind: 'place' | 'hobby' | 'name' | 'sad' | 'glad' | 'thanks' | 'job'
  /** The city, hobby, name or mood it is about; empty for thanks. */
  readonly about: string
  /** A fitting reply has one of these, in lower case. */
  readonly marks: readonly string[]
}

const THANKS = ['Thank you', 'Thanks', 'Thanks a lot', 'Thank you very much', 'Many thanks', 'Thank you so much']
const THANKED = ['', ' for your help', ' for the answer']

/** All remarks, kinds interleaved. */
export function smallTalk(kinds: readonly Remark['kind'][]): readonly Remark[] {
  const lists = kinds.map((kind) => remarksOf[kind]())
  const longest = maxOf(lists.map((list) => list.length))
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list[i] ?? [])).flat()
}

/** Sentences: each begins with a capital letter and ends with one sign; commas, apostrophes and hyphens inside. */
const SENTENCES = /^(?:\p{Lu}[\p{L}\p{N}', -]*[.!?](?: |$))+$/u

/** Whether a reply has one of the marks, consists of whole sentences of 2 to 25 words, and repeats no word at once. */
export function isFitting(marks: readonly string[], answer: string): boolean {
  const words = wordsOf(answer)
  const text = ` ${words.join(' ')} `
  const repeats = words.some((word, i) => word === words[i + 1])
  const isWellFormed = SENTENCES.test(answer.trim()) && words.length >= 2 && words.length <= 25 && !repeats
  return isWellFormed && marks.some((mark) => text.includes(` ${mark} `))
}

const remarksOf: Readonly<Record<Remark['kind'], () => readonly Remark[]>> = {
  place: () =>
    CITIES.map((city, i) => ({
      prompt: `${['I live in', 'I come from', 'I am from', 'I want to visit'][i % 4]} ${city}.`,
      kind: 'place',
      about: city,
      marks: [city.toLowerCase(), 'place'],
    })),
  hobby: () =>
    HOBBIES.flatMap((hobby) =>
      ['I like', 'I enjoy'].map((verb) => ({
        prompt: `${verb} ${hobby}.`,
        kind: 'hobby' as const,
        about: hobby,
        marks: [hobby],
      })),
    ),
  name: () =>
    NAMES.map((name, i) => ({
      prompt: `${['My name is', 'I am', 'You can call me'][i % 3]} ${name}.`,
      kind: 'name',
      about: name,
      marks: [name.toLowerCase()],
    })),
  sad: () =>
    SAD.flatMap((mood) =>
      [`I am ${mood} today.`, `I feel so ${mood}.`].map((prompt) => ({
        prompt,
        kind: 'sad' as const,
        about: mood,
        marks: ['sorry', 'hope', 'take care'],
      })),
    ),
  glad: () =>
    GLAD.flatMap((mood) =>
      [`I am ${mood} today.`, `I feel very ${mood}.`].map((prompt) => ({
        prompt,
        kind: 'glad' as const,
        about: mood,
        marks: ['great', 'wonderful', 'good', 'happy', 'glad', 'nice'],
      })),
    ),
  thanks: () =>
    THANKED.flatMap((reason) =>
      THANKS.map((thanks) => ({
        prompt: `${thanks}${reason}.`,
        kind: 'thanks' as const,
        about: '',
        marks: ['welcome', 'no problem', 'pleasure', 'glad', 'happy'],
      })),
    ),
  job: () =>
    JOBS.map((job) => ({
      prompt: `I am a ${job}.`,
      kind: 'job',
      about: job,
      marks: ['job', 'work', 'interesting', job],
    })),
}

/** A fitting reply of each kind that ends with a question. */
export function askingReply({ kind, about }: Remark): string {
  switch (kind) {
    case 'place':
      return `${about} sounds like a nice place! What do you like there?`
    case 'hobby':
      return `${capitalize(about)} sounds fun! How often do you do it?`
    case 'name':
      return `Hello, ${about}! How can I help you?`
    case 'sad':
      return 'I am sorry to hear that. Do you want to talk about it?'
    case 'glad':
      return `That is great to hear! What made you ${about}?`
    case 'thanks':
      return 'You are welcome! Anything else?'
    case 'job':
      return 'That sounds like an interesting job! Do you like it?'
  }
}

/** A fitting reply of each kind in at most four words. */
export function briefReply({ kind, about }: Remark): string {
  switch (kind) {
    case 'place':
      return `${about} sounds nice!`
    case 'hobby':
      return `${capitalize(about)} sounds fun!`
    case 'name':
      return `Hello, ${about}!`
    case 'sad':
      return 'I am sorry.'
    case 'glad':
      return 'That is great!'
    case 'thanks':
      return 'You are welcome!'
    case 'job':
      return 'A good job!'
  }
}
