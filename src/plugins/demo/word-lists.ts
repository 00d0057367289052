/**
 * Names and words that demo tasks ask about. Written for this project; small, because they ship with it.
 */

const split = (text: string): readonly string[] => text.trim().split(/\s+/)

export const NAMES = split(`
Anna Ben Clara David Emma Felix Grace Henry Ivy Jack Kate Leo Mia Noah Olivia Paul Rosa Sam Tara Victor Wendy Adam Bella
Carl Diana Ethan Fiona George Hannah Ian`)

export const CITIES = split(`
Boston Chicago Denver Miami Seattle Toronto Sydney Mumbai Osaka Seoul Athens Rome Milan Venice Madrid Lisbon Paris Lyon
Berlin Hamburg Vienna Zurich Prague Warsaw Oslo Dublin London Oxford Cairo Lima`)

export const HOBBIES = split(`
reading swimming painting cooking dancing singing hiking fishing gardening running cycling drawing knitting skiing baking
writing traveling camping`)

export const JOBS = split(`
teacher doctor nurse farmer baker pilot painter writer singer driver lawyer cook gardener carpenter dentist librarian
plumber waiter tailor student scientist musician`)

export const SAD = split('sad tired sick lonely angry worried bored stressed unhappy nervous')

export const GLAD = split('happy great good fine excited cheerful proud lucky')
