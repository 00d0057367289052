/**
 * Names and things that the generators write about. Written for this project; order matters, because seeds index into it.
 */

const split = (/** @type {string} */ text) => text.trim().split(/\s*,\s*/)

export const NAMES = split(`
Anna, Ben, Clara, David, Emma, Felix, Grace, Henry, Ivy, Jack, Kate, Leo, Mia, Noah, Olivia, Paul, Quinn, Rosa, Sam, Tara, Uma,
Victor, Wendy, Xavier, Yara, Zoe, Adam, Bella, Carl, Diana, Ethan, Fiona, George, Hannah, Ian, Julia, Kevin, Laura, Mark, Nina,
Oscar, Petra, Robert, Sara, Tom, Ursula, Vera, Will, Yusuf, Amir, Bianca, Chen, Dora, Elena, Frank, Greta, Hugo, Iris, James,
Karen, Lucas, Maria, Nadia, Omar, Pedro, Ravi, Sofia, Tim, Aisha, Boris, Carmen, Daniel, Ella, Finn, Gina, Hana, Isaac, Jane,
Kofi, Lena, Max, Nora, Otto, Priya, Ruth, Simon, Tina, Viktor, Wang, Yuki, Alice, Bruno, Cora, Dan, Eva, Fred, Gloria, Hassan,
Ines, Joel, Kim, Lily, Martin, Naomi, Oliver, Paula, Rita, Stefan, Theo, Amy, Brian, Chloe, Dylan, Edith, Gavin, Holly, Jonas`)

export const CITIES = split(`
Boston, Chicago, Denver, Miami, Seattle, Dallas, Toronto, Montreal, Vancouver, Sydney, Melbourne, Perth, Auckland, Mumbai, Delhi,
Shanghai, Osaka, Kyoto, Seoul, Bangkok, Hanoi, Istanbul, Athens, Rome, Milan, Naples, Venice, Madrid, Barcelona, Seville, Lisbon,
Porto, Paris, Lyon, Nice, Berlin, Hamburg, Munich, Cologne, Vienna, Zurich, Geneva, Prague, Warsaw, Krakow, Budapest, Oslo, Bergen,
Stockholm, Helsinki, Dublin, Cork, London, Leeds, Bristol, Oxford, Glasgow, Cairo, Lagos, Nairobi, Accra, Tunis, Lima, Bogota,
Quito, Santiago, Havana, Austin, Phoenix, Portland, Atlanta, Houston, Moscow, Kyiv, Riga, Tallinn, Dubai, Doha, Amman, Manila`)

export const ANIMALS = split(`
cat, dog, horse, cow, pig, sheep, goat, duck, hen, rabbit, mouse, fox, wolf, bear, lion, tiger, monkey, elephant, giraffe, zebra,
camel, deer, frog, turtle, snake, owl, eagle, parrot, penguin, whale, dolphin, shark, bee, ant, butterfly, spider, squirrel, donkey,
hamster, swan`)
export const FRUITS = split(
  'apple, pear, banana, orange, lemon, cherry, peach, plum, grape, mango, melon, fig, kiwi, berry, lime, date',
)
export const VEGETABLES = split(
  'carrot, potato, onion, tomato, pepper, bean, pea, cabbage, pumpkin, leek, garlic, radish, spinach, corn',
)
export const FOODS = split(
  'bread, rice, soup, pizza, pasta, cheese, salad, cake, pie, butter, honey, yogurt, porridge, toast, noodles, curry',
)
export const DRINKS = split('tea, coffee, milk, water, juice, lemonade, cocoa, cider')
export const COLORS = split('red, blue, green, yellow, black, white, brown, pink, purple, orange, gray, gold')
export const VEHICLES = split('car, bus, train, bike, boat, truck, plane, ship, tram, van, taxi, ferry')
export const FURNITURE = split('table, chair, bed, sofa, desk, shelf, lamp, bench, stool, wardrobe')
export const CLOTHES = split('shirt, hat, coat, scarf, dress, sock, shoe, glove, sweater, jacket, belt, skirt')
export const TOOLS = split('hammer, saw, drill, axe, shovel, rake, knife, spoon, broom, ladder, wrench, needle')
export const INSTRUMENTS = split('piano, guitar, violin, drum, flute, trumpet, harp, cello, organ, clarinet')
export const BODY_PARTS = split('hand, foot, arm, leg, head, nose, ear, eye, knee, elbow, finger, shoulder')
export const SPORTS = split(
  'football, tennis, golf, hockey, rugby, cricket, baseball, judo, chess, rowing, boxing, basketball',
)
export const JOBS = split(`
teacher, doctor, nurse, farmer, baker, pilot, painter, writer, singer, driver, lawyer, engineer, cook, gardener, carpenter, dentist,
librarian, police officer, plumber, waiter, tailor, student, scientist, actor, musician, photographer`)
export const HOBBIES = split(`
reading, swimming, painting, cooking, dancing, singing, hiking, fishing, gardening, running, cycling, drawing, knitting, skiing,
baking, writing, traveling, camping`)
export const OBJECTS = split(`
book, pen, cup, ball, box, key, clock, bottle, plate, coin, stamp, candle, basket, pencil, card, toy, balloon, stone, shell, button,
ticket, flower, egg, cookie, marble, sticker, mug, letter, brick, bag`)
export const PLACES = split(
  'park, school, market, library, station, beach, garden, museum, harbor, kitchen, forest, village, farm, office, bakery, bridge',
)
export const DAYS = split('Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday')
export const MONTHS = split(
  'January, February, March, April, May, June, July, August, September, October, November, December',
)

/** Kinds of things with their members, for questions about what a thing is. */
export const KINDS = {
  animal: ANIMALS,
  fruit: FRUITS.filter((fruit) => fruit !== 'orange'),
  vegetable: VEGETABLES,
  drink: DRINKS,
  color: COLORS.filter((color) => color !== 'orange'),
  vehicle: VEHICLES,
  tool: TOOLS,
  'musical instrument': INSTRUMENTS,
  'body part': BODY_PARTS,
  sport: SPORTS,
  job: JOBS,
  'piece of furniture': FURNITURE,
  'piece of clothing': CLOTHES,
}

/** Plural of the regular nouns above, and of the irregular ones among them. @param {string} noun */
export function plural(noun) {
  const irregular = {
    mouse: 'mice',
    sheep: 'sheep',
    deer: 'deer',
    foot: 'feet',
    wolf: 'wolves',
    knife: 'knives',
    shelf: 'shelves',
  }
  if (Object.hasOwn(irregular, noun)) return irregular[/** @type {keyof typeof irregular} */ (noun)]
  if (/[^aeiou]y$/.test(noun)) return `${noun.slice(0, -1)}ies`
  return /(?:s|x|ch|sh)$/.test(noun) || /(?:potato|tomato|mango)$/.test(noun) ? `${noun}es` : `${noun}s`
}
