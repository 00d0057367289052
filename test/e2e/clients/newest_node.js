/**
 * The newest versions of clients for Node.js against a service: the OpenAI client, the AI SDK, LangChain.js and OpenAI's agents.
 *
 *     node newest_node.js <folder that they are installed in> <url> <key> <base model>
 *
 * Prints one JSON object with what was seen.
 */
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [folder, url, key, model] = process.argv.slice(2)
const require = createRequire(path.join(folder, 'package.json'))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)
const baseURL = `${url}/v1`
const { z } = await load('zod')
const cities = ['Paris', 'Rome']
const trip = z.object({ city: z.enum(cities), length: z.enum(['a day', 'a week']) })
const isTrip = (value) => trip.safeParse(value).success
const question = 'How is the weather?'
/** Left to itself the model writes another city, and no unit. */
const place = z.object({ city: z.enum(['Oslo', 'Lima']), unit: z.enum(['c', 'f']) })
const ownQuestion = 'What is the weather in Paris?'

async function openai() {
  const { default: OpenAI } = await load('openai')
  const { zodFunction, zodResponseFormat } = await load('openai/helpers/zod')
  const client = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 })
  const messages = [{ role: 'user', content: 'Hello there.' }]
  const request = { model, messages, temperature: 0, max_completion_tokens: 24 }
  const whole = await client.chat.completions.create(request)
  let text = ''
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true }))
    text += chunk.choices[0]?.delta.content ?? ''
  const format = zodResponseFormat(trip, 'trip')
  const parsed = await client.chat.completions.parse({ ...request, max_completion_tokens: 64, response_format: format })
  const response = await client.responses.create({ model, input: 'Hello there.', max_output_tokens: 24 })
  const tools = [zodFunction({ name: 'get_weather', description: 'Weather of a city', parameters: place })]
  const own = { ...request, max_completion_tokens: 64, messages: [{ role: 'user', content: ownQuestion }], tools }
  const called = await client.chat.completions.parse(own)
  return {
    calls: place.safeParse(called.choices[0].message.tool_calls?.[0]?.function.parsed_arguments).success,
    streams: text === whole.choices[0].message.content,
    parses: isTrip(parsed.choices[0].message.parsed),
    responds: response.output_text !== '',
  }
}

async function aiSdk() {
  const { generateObject, generateText, isStepCount, stepCountIs, streamText, tool } = await load('ai')
  const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible')
  const provider = createOpenAICompatible({ name: 'trainyard', baseURL, apiKey: key, supportsStructuredOutputs: true })
  const weather = tool({
    description: 'The weather of a city',
    inputSchema: z.object({ city: z.enum(cities) }),
    execute: async ({ city }) => `sunny in ${city}`,
  })
  const request = {
    model: provider(model),
    prompt: question,
    tools: { weather },
    maxOutputTokens: 64,
    temperature: 0,
    stopWhen: (stepCountIs ?? isStepCount)(2),
    prepareStep: ({ stepNumber }) => ({
      toolChoice: stepNumber === 0 ? { type: 'tool', toolName: 'weather' } : 'none',
    }),
  }
  const whole = await generateText(request)
  let text = ''
  for await (const part of streamText(request).textStream) text += part
  const { object } = await generateObject({
    model: provider(model),
    schema: trip,
    prompt: 'Plan a trip.',
    maxOutputTokens: 64,
  })
  return {
    calls: /^sunny in /.test(whole.steps[0].toolResults[0].output),
    streams: text === whole.text,
    parses: isTrip(object),
  }
}

async function langchain() {
  const { ChatOpenAI } = await load('@langchain/openai')
  const { tool } = await load('@langchain/core/tools')
  const { HumanMessage } = await load('@langchain/core/messages')
  const chat = new ChatOpenAI({ model, apiKey: key, configuration: { baseURL }, temperature: 0, maxTokens: 64 })
  const whole = await chat.invoke('Hello there.')
  let text = ''
  for await (const chunk of await chat.stream('Hello there.')) text += String(chunk.content)
  const weather = tool(({ city }) => `sunny in ${city}`, {
    name: 'weather',
    schema: z.object({ city: z.enum(cities) }),
  })
  const asked = new HumanMessage(question)
  const turn = await chat.bindTools([weather], { tool_choice: 'weather' }).invoke([asked])
  const result = await weather.invoke({ ...turn.tool_calls[0], type: 'tool_call' })
  const last = await chat.invoke([asked, turn, result])
  const parsed = await chat.withStructuredOutput(trip, { method: 'jsonSchema', name: 'trip' }).invoke('Plan a trip.')
  return { streams: text === whole.content, calls: String(last.content) !== '', parses: isTrip(parsed) }
}

async function agents() {
  const { default: OpenAI } = await load('openai')
  const { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool } =
    await load('@openai/agents')
  setTracingDisabled(true)
  const client = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 })
  const weather = tool({
    name: 'weather',
    description: 'The weather of a city',
    parameters: z.object({ city: z.enum(cities) }),
    execute: async ({ city }) => `sunny in ${city}`,
  })
  const asked = []
  const getWeather = tool({
    name: 'get_weather',
    description: 'Weather of a city',
    parameters: place,
    execute: async (given) => {
      asked.push(given)
      return 'sunny'
    },
  })
  const seen = {}
  for (const [name, Model] of [
    ['chat', OpenAIChatCompletionsModel],
    ['responses', OpenAIResponsesModel],
  ]) {
    const modelSettings = { temperature: 0, maxTokens: 64 }
    const caller = new Agent({
      name: 'caller',
      model: new Model(client, model),
      tools: [weather],
      modelSettings: { ...modelSettings, toolChoice: 'weather' },
    })
    const called = await new Runner().run(caller, question, { maxTurns: 3 })
    const planner = new Agent({ name: 'planner', model: new Model(client, model), outputType: trip, modelSettings })
    const planned = await new Runner().run(planner, 'Plan a trip.')
    // strict by default, and nothing tells the model to call
    asked.length = 0
    const free = new Agent({ name: 'free', model: new Model(client, model), tools: [getWeather], modelSettings })
    await new Runner().run(free, ownQuestion, { maxTurns: 4 })
    const results = called.newItems.filter(({ type }) => type === 'tool_call_output_item')
    seen[name] = {
      calls: results.length > 0 && called.finalOutput !== '',
      parses: isTrip(planned.finalOutput),
      callsByItself: asked.length > 0,
    }
  }
  return seen
}

const seen = { openai: await openai(), ai: await aiSdk(), langchain: await langchain(), agents: await agents() }
process.stdout.write(`${JSON.stringify(seen)}\n`)
