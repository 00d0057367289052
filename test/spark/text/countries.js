/**
 * Countries with capital and continent, from the npm package `countries-list` (MIT).
 *
 * Sovereign states only. Left out: territories, and states whose capital, continent or status differs between sources.
 */
import { continents, countries } from 'countries-list'

const LEFT_OUT = new Set(
  `Anguilla, American Samoa, Aruba, Saint Barthelemy, Bermuda, Bonaire, Cocos (Keeling) Islands, Cook Islands, Curacao, Christmas Island,
Western Sahara, Falkland Islands, Faroe Islands, French Guiana, Guernsey, Gibraltar, Greenland, Guadeloupe,
South Georgia and the South Sandwich Islands, Guam, Hong Kong, Isle of Man, British Indian Ocean Territory, Jersey, Cayman Islands,
Saint Martin, Northern Mariana Islands, Martinique, Montserrat, New Caledonia, Norfolk Island, Niue, French Polynesia,
Saint Pierre and Miquelon, Pitcairn Islands, Puerto Rico, Reunion, Svalbard and Jan Mayen, Sint Maarten, Turks and Caicos Islands,
French Southern Territories, Tokelau, British Virgin Islands, U.S. Virgin Islands, Wallis and Futuna, Mayotte, Macao, Aland,
Antarctica, Bouvet Island, Heard Island and McDonald Islands, U.S. Minor Outlying Islands, Ascension Island, Tristan da Cunha,
Saint Helena, Israel, Palestine, Taiwan, Kosovo, Sri Lanka, Eswatini, Nauru, East Timor, Cyprus, Netherlands Antilles`
    .split(',')
    .map((name) => name.trim()),
)

/** @typedef {{ name: string, capital: string, continent: string }} Country */

/** @type {readonly Country[]} */
export const COUNTRIES = Object.values(countries)
  .filter((country) => country.capital !== '' && !('partOf' in country) && !LEFT_OUT.has(country.name))
  .map((country) => ({
    name: country.name,
    capital: country.capital,
    continent: continents[country.continent],
  }))

/** @type {readonly string[]} */
export const CONTINENTS = ['Africa', 'Asia', 'Europe', 'North America', 'Oceania', 'South America']

/** `the Netherlands`, `Spain`. @param {string} name */
export const withThe = (name) =>
  /^(?:United |Democratic Rep|Central African|Republic|Dominican Rep|Netherlands|Philippines|Bahamas|Maldives|Seychelles|Solomon|Marshall|Comoros|Gambia|Czech Rep)/.test(
    name,
  )
    ? `the ${name}`
    : name
