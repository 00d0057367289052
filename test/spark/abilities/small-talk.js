/**
 * Greetings and small talk in plain English: hello, names, moods, thanks, goodbyes, what the model is, likes, jokes.
 *
 * An intent has ways to ask, ways to answer, and words of which a fitting answer has at least one. Held out is the exact
 * wording of the question; answers to someone who gives a name use the name.
 */
import { words } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { ANIMALS, CITIES, COLORS, DAYS, FOODS, HOBBIES, JOBS, NAMES, plural, SPORTS } from './lists.js'
import { pick, say, withArticle } from './say.js'

/** @typedef {import('./say.js').Rng} Rng @typedef {{ ask: string[], answer: string[], marks: string[] }} Intent */

const PUNCTUATION = '[.|!|]'

/** `marks`: a fitting answer has one of these words or phrases; `{name}` and the like are filled in. @type {Record<string, Intent>} */
const INTENTS = {
  hello: {
    ask: [
      `[Hello|Hi|Hey|Good morning|Good afternoon|Good evening|Greetings|Hi there|Hello there|Hey there|hello|hi|hey]${PUNCTUATION}`,
      '[Hello|Hi|Hey], [Spark|my friend|computer|little model|robot|you][!|.|]',
      '[Hello|Hi|Hey]! [Are you there|Anybody there|Are you awake|Do you hear me|Can we talk|Can you hear me|Do you have a minute]?',
    ],
    answer: [
      'Hello! [How can I help you?|How are you today?|Nice to see you.|What can I do for you?]',
      'Hi! [How can I help you?|What can I do for you?|How are you?]',
    ],
    marks: ['hello', 'hi', 'hey', 'good morning', 'good afternoon', 'good evening'],
  },
  name: {
    ask: [
      "[Hello|Hi|Hey|Good morning|Good evening|]! [I am|I'm|My name is|This is|It's me,] {name}[.|!|]",
      "[I am|I'm|My name is|You can call me|People call me] {name}[.|!|, nice to meet you.|, how do you do?|. What is your name?]",
    ],
    answer: [
      '[Hello|Hi], {name}! [Nice to meet you.|How can I help you?|It is good to meet you.]',
      'Nice to meet you, {name}! [I am Spark.|How are you today?]',
    ],
    marks: ['{name}'],
  },
  mood: {
    ask: [
      "[How are you|How are you doing|How do you feel|How is it going|How's it going|What's up|How have you been|Are you well|Are you okay][ today| now| this morning| tonight|]?",
      '[Hi|Hello|Hey][,|!] [how are you|how are you doing|how is it going][ today|]?',
      'And [you|how are you]?',
    ],
    answer: [
      'I am [fine|doing well|very well], thank you! [How are you?|And you?|How can I help you?]',
      '[Fine|Very well], thanks! How [are you|about you]?',
    ],
    marks: ['fine', 'well', 'good', 'great'],
  },
  goodMood: {
    ask: [
      "[I am|I'm|I feel] [so |very |really |]{mood}[ today| right now| this morning|][.|!]",
      'Today [I am|I feel] [so |very |]{mood}[.|!]',
    ],
    answer: [
      "[That is|That's] [great|wonderful|good] to hear! [What made you {mood}?|I am happy for you.]",
      'I am [happy|glad] to hear that!',
    ],
    marks: ['great', 'wonderful', 'good', 'happy', 'glad', 'nice'],
  },
  badMood: {
    ask: [
      "[I am|I'm|I feel] [so |very |really |a bit |]{sad}[ today| right now| this evening|][.|]",
      'Today [I am|I feel] [so |very |a little |]{sad}[.|]',
    ],
    answer: [
      'I am sorry to hear that. [Do you want to talk about it?|I hope you feel better soon.|Take care of yourself.]',
      'Oh no, I am sorry. [What happened?|I hope it gets better.]',
    ],
    marks: ['sorry', 'hope', 'take care'],
  },
  thanks: {
    ask: [
      '[Thanks|Thank you|Many thanks|Thanks a lot|Thank you very much|Thank you so much|thx][ for your help| for that| for the answer|, Spark|, that helps|][.|!|]',
      '[That was|This is] [helpful|very helpful|great|useful|kind of you], [thanks|thank you][.|!]',
    ],
    answer: [
      'You are welcome! [Anything else?|I am glad to help.|]',
      '[No problem!|My pleasure!] [I am happy to help.|Let me know if you need more.]',
    ],
    marks: ['welcome', 'no problem', 'pleasure', 'glad', 'happy'],
  },
  goodbye: {
    ask: [
      '[Goodbye|Bye|Bye bye|See you|See you later|See you soon|See you tomorrow|Good night|I have to go|I must go now|Talk to you later|Take care|See you on {day}|Until {day}][, Spark|, my friend|][.|!|]',
    ],
    answer: [
      '[Goodbye|Bye]! [Have a nice day.|Take care.|See you soon.]',
      'See you [soon|later]! [Take care.|Have a nice day.]',
    ],
    marks: ['goodbye', 'bye', 'see you', 'take care', 'good night'],
  },
  self: {
    ask: [
      "[Who are you|What are you|What is your name|What's your name|Do you have a name|Tell me your name|Tell me about yourself|Introduce yourself|Are you a robot|Are you human|Are you a person|Are you an AI|Are you real][?|]",
      '[Hi|Hello|Hey][,|!] [who are you|what are you|what is your name|who am I talking to]?',
      '[So|Well|And], [who|what] are you[ exactly| really|]?',
    ],
    answer: [
      'I am Spark, a [small|very small] language model[.|. I was trained by Trainyard.|. How can I help you?]',
      'My name is Spark. I am a small language model.',
    ],
    marks: ['spark', 'language model'],
  },
  maker: {
    ask: [
      '[Who made you|Who built you|Who trained you|Who created you|Where do you come from|How were you made|How were you trained|Where were you trained][?|]',
      '[Who was it that|Which program] [made|trained|built] you?',
    ],
    answer: [
      'I was trained by Trainyard[, on a small computer|, on two processor cores|].',
      'Trainyard trained me[ from scratch|, from the first word to the last|].',
    ],
    marks: ['trainyard'],
  },
  skills: {
    ask: [
      '[What can you do|What do you know|How can you help me|What are you good at|What should I ask you|What can I ask you|Can you help me|I need help|Help][ today| now|, please|][?|.|]',
    ],
    answer: [
      'I can [spell and sort words, do small sums and name capitals|count, sort and repeat words, do simple sums and call tools|answer short questions, do small sums and fill in JSON].',
      'I [know|am good at] small things: [words, numbers and capitals|sums, words and short answers]. [Ask me!|Try me.]',
    ],
    marks: ['words', 'sums', 'capitals', 'questions', 'numbers'],
  },
  favorite: {
    ask: [
      "[What is|What's|Tell me] your favorite {topic}[?|]",
      'Do you have a favorite {topic}?',
      '[Which|What] {topic} do you like[ best| most|]?',
    ],
    answer: [
      'I like {thing}. [What about you?|And you?|Which one do you like?]',
      'My favorite {topic} is {thing}. [What is yours?|And yours?]',
    ],
    marks: ['like', 'favorite', 'love'],
  },
  like: {
    ask: [
      'I [like|love|really like|enjoy|do not like|hate] {hobby}[.|!]',
      'Do you [like|enjoy|know] {hobby}?',
      '[My hobby is|In my free time I enjoy|Today I am] {hobby}[.|]',
    ],
    answer: [
      '{Hobby} [sounds|can be] [fun|nice]! [How often do you do it?|Tell me more.]',
      '[I see!|Oh, {hobby}!] [Tell me more about {hobby}.|What do you like about {hobby}?]',
    ],
    marks: ['{hobby}'],
  },
  work: {
    ask: ["[I am|I'm|I work as] {job}[.|!|, and you?]", 'My [brother|sister|mother|father|friend] is {job}[.|]'],
    answer: [
      '{Job}? That [is|sounds like] [an interesting|a good|an important] job! [Do you like it?|Is it hard work?]',
      '[A good job!|How interesting!] [What does {job} do all day?|Is it fun to be {job}?]',
    ],
    marks: ['job', 'work', 'interesting'],
  },
  place: {
    ask: [
      '[I live in|I come from|I am from|I was born in|I am going to|I want to visit] {city}[.|!]',
      '[Have you been to|Do you know|Do you like] {city}?',
    ],
    answer: [
      '{city} [sounds like|must be] a [nice|lovely|beautiful] place! [What do you like there?|Tell me more.]',
      'I have never been to {city}, [but I would like to see it|but I have heard of it].',
    ],
    marks: ['{city}'],
  },
  joke: {
    ask: [
      '[Tell me|Do you know|Can you tell me|I want to hear|Please tell me] [a|a good|another|a short|a funny] joke[?|.|]',
      '[Make me laugh|Say something funny|Joke, please]!',
      'Tell me a joke [about|with] [{anAnimal}|{animals}][.|]',
    ],
    answer: [
      'Why did the {animal} cross the road? To get to the other side!',
      'What do you call {anAnimal} in the snow? Cold!',
      'Why was the {animal} late? It missed the bus!',
      'Why did the math book look sad? It had too many problems!',
      'What has hands but cannot clap? A clock!',
    ],
    marks: ['why', 'what'],
  },
  praise: {
    ask: [
      "[You are|You're] [so |very |really |]{praise}[.|!]",
      '[Good job|Well done|Great|Very good|Nice work|That is right|Correct|Perfect][, Spark|, thank you|][.|!]',
      'I like you[ a lot| very much|][.|!]',
    ],
    answer: [
      'Thank you! [That is kind of you.|You are kind.|That makes me happy.]',
      'Thanks! [I do my best.|I am glad you think so.]',
    ],
    marks: ['thank', 'thanks', 'kind', 'glad'],
  },
}

const GOOD = ['happy', 'great', 'good', 'fine', 'excited', 'cheerful', 'proud', 'lucky', 'rested']
const BAD = [
  'sad',
  'tired',
  'ill',
  'sick',
  'lonely',
  'angry',
  'worried',
  'bored',
  'stressed',
  'unhappy',
  'nervous',
  'afraid',
]
const PRAISE = ['smart', 'nice', 'kind', 'clever', 'funny', 'helpful', 'great', 'good', 'sweet', 'fast']
/** @type {Record<string, string[]>} */
const FAVORITES = {
  color: COLORS,
  animal: ANIMALS.map(plural),
  food: FOODS,
  sport: SPORTS,
  hobby: HOBBIES,
  day: DAYS,
  city: CITIES,
}

/** A question with an answer; also used where tools are offered and none is needed. @param {Rng} rng */
export function drawSmallTalk(rng) {
  const task = pick(rng, Object.keys(INTENTS))
  const { ask, answer, marks } = INTENTS[task]
  const topic = pick(rng, Object.keys(FAVORITES))
  const hobby = pick(rng, HOBBIES)
  const animal = pick(rng, ANIMALS)
  const job = withArticle(pick(rng, JOBS))
  const values = {
    name: pick(rng, NAMES),
    mood: pick(rng, GOOD),
    sad: pick(rng, BAD),
    praise: pick(rng, PRAISE),
    day: pick(rng, DAYS),
    city: pick(rng, CITIES),
    animal,
    anAnimal: withArticle(animal),
    animals: plural(animal),
    topic,
    thing: pick(rng, FAVORITES[topic]),
    hobby,
    Hobby: hobby.charAt(0).toUpperCase() + hobby.slice(1),
    job,
    Job: job.charAt(0).toUpperCase() + job.slice(1),
  }
  const question = say(rng, ask, values).trim()
  return {
    task,
    keys: [`talk:${words(question).join(' ')}`],
    question,
    answer: say(rng, answer, values).trim(),
    marks: marks.map((mark) => say(rng, mark, values)),
  }
}

export const smallTalk = defineAbility({
  name: 'small-talk',
  summary: 'greetings and small talk',
  share: 8,
  draw(rng) {
    const { task, keys, question, answer, marks } = drawSmallTalk(rng)
    return { task, keys, messages: exchange(question, answer), expect: { marks } }
  },
  score({ expect }, { content, toolCalls }) {
    const said = words(content)
    const text = ` ${said.join(' ')} `
    const isFitting = /** @type {string[]} */ (expect.marks).some((mark) => text.includes(` ${words(mark).join(' ')} `))
    const isWellFormed = /[.!?]$/.test(content) && content.length <= 160 && !/(\b\w+\b)(?:\W+\1){2}/i.test(content)
    return toolCalls.length > 0 ? 0 : (isFitting ? 0.7 : 0) + (isFitting && isWellFormed ? 0.3 : 0)
  },
})
