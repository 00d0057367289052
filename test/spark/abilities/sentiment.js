/**
 * Positive, negative or neutral: reviews, messages and moods. Pairs of a subject and a judgement are held out.
 */
import { mentions } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { capitalize, chance, pick, say } from './say.js'

const SUBJECTS =
  'food,service,movie,book,hotel,room,staff,coffee,soup,concert,game,phone,camera,laptop,battery,screen,music,weather,trip,flight,train ride,waiter,guide,museum,garden,cake,bread,pizza,salad,class,teacher,lesson,app,website,delivery,package,price,quality,story,ending,acting,view,pool,beach,breakfast,dinner,party,team,match,car,bike,shop,store,doctor,visit,support,update,chair,bed,lamp,jacket,shoes'.split(
    ',',
  )
const POSITIVE =
  'great,good,wonderful,excellent,amazing,fantastic,lovely,perfect,brilliant,superb,awesome,delightful,pleasant,beautiful,outstanding,nice,charming,impressive,enjoyable,terrific,marvelous,first class,very kind to us,a real joy,better than expected,worth every penny,the best I have ever had,really helpful'.split(
    ',',
  )
const NEGATIVE =
  'bad,terrible,awful,horrible,poor,disappointing,boring,dull,dreadful,ugly,dirty,rude to us,too slow,broken,useless,annoying,unpleasant,cold and bland,a waste of money,a waste of time,worse than expected,the worst I have ever had,not good at all,not worth the money,far too expensive,a big mistake,a mess'.split(
    ',',
  )
const NEUTRAL =
  'on the second floor,open from nine to five,made in Italy,about two hours long,the same as last year,next to the station,available in three colors,listed on the website,on the table,scheduled for Monday,in the other building,described in the manual'.split(
    ',',
  )
const AFTER = {
  positive:
    'I loved it,I will come back,I would recommend it to everyone,It made my day,Thank you so much,We were very happy,I smiled the whole time,Five stars from me'.split(
      ',',
    ),
  negative:
    'I hated it,I want my money back,I will never come back,I would not recommend it,It ruined my day,We were very unhappy,I regret it,One star from me'.split(
      ',',
    ),
  neutral:
    'We went there on Tuesday,My brother was there too,It has a blue sign,There are two of them,It was about noon'.split(
      ',',
    ),
}
const JUDGEMENTS = { positive: POSITIVE, negative: NEGATIVE, neutral: NEUTRAL }

const TWO = [
  '[Is this|Is the following] [review|text|sentence|comment|message] positive or negative? {text}',
  '[Classify|Label] the sentiment[ of this text|] as positive or negative: {text}',
  '[What is the sentiment of this [review|sentence|text]|Sentiment]: positive or negative? "{text}"',
  '{text} [Is that|Is this] positive or negative?',
]
const THREE = [
  '[Is this|Is the following] [review|text|sentence|comment] positive, negative or neutral? {text}',
  '[Classify|Label] the sentiment as positive, negative or neutral: {text}',
  'Positive, negative or neutral? "{text}"',
]
const PLURAL = new Set(['shoes'])

export const sentiment = defineAbility({
  name: 'sentiment',
  summary: 'positive, negative or neutral',
  share: 2,
  draw(rng) {
    const isThree = chance(rng, 0.35)
    /** @type {(keyof typeof JUDGEMENTS)[]} */
    const labels = isThree ? ['positive', 'negative', 'neutral'] : ['positive', 'negative']
    const label = pick(rng, labels)
    const subject = pick(rng, SUBJECTS)
    const judgement = pick(rng, JUDGEMENTS[label])
    const verb = PLURAL.has(subject) ? 'were' : 'was'
    const adverb =
      label !== 'neutral' && /^[a-z]+$/.test(judgement) ? pick(rng, ['', '', '', 'very ', 'really ', 'so ']) : ''
    const opening = capitalize(
      say(rng, `[The|The|Our|My|${verb === 'was' ? 'This' : 'These'}] {subject} {verb} {adverb}{judgement}`, {
        subject,
        verb,
        adverb,
        judgement,
      }),
    )
    const closing = chance(rng, 0.5)
      ? ` ${pick(rng, AFTER[label])}${label === 'positive' && chance(rng, 0.3) ? '!' : '.'}`
      : ''
    const question = say(rng, isThree ? THREE : TWO, { text: `${opening}.${closing}` })
    return {
      task: isThree ? 'three' : 'two',
      keys: [`opinion:${subject}/${judgement}`],
      messages: exchange(question, capitalize(label)),
      expect: { answer: label },
    }
  },
  score: ({ expect }, { content }) =>
    mentions(String(expect.answer), content, { maxLength: 60, others: ['positive', 'negative', 'neutral'] }),
})
