/**
 * An episode of several turns with a tool: look the weather up, then say the temperature that came back, and no other number.
 *
 * JavaScript, so that the curves of `test/bench/learning` run it as it stands.
 */
import { createToolEnvironment } from 'trainyard/rl'

/**
 * One episode's world. The reward is given once, at its end: 0.2 for asking for the right city, 0.8 for its temperature.
 *
 * @param {string} city
 */
export function weatherQuestion(city) {
  const temperature = 11 + ((city.length * 7 + city.charCodeAt(0)) % 20)
  /** @type {unknown} */
  let lookedUp = null
  return createToolEnvironment({
    messages: [{ role: 'user', content: `What is the weather in ${city}?` }],
    tools: [
      {
        name: 'get_weather',
        description: 'Get the weather of a city.',
        parameters: {
          type: 'object',
          properties: { city: { type: 'string', description: 'name of the city' } },
          required: ['city'],
        },
        run(args) {
          lookedUp = args['city']
          return { city, temperature }
        },
      },
    ],
    reward(_, { content }) {
      const numbers = content.match(/\d+/g) ?? []
      const isSaid = numbers.length === 1 && numbers[0] === String(temperature)
      return (lookedUp === city ? 0.2 : 0) + (isSaid ? 0.8 : 0)
    },
  })
}
