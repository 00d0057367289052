/**
 * Schemas as the libraries write them that people describe their answers with: zod's own output, and pydantic's and schemars' forms.
 */
import { z } from 'zod'
import type { JsonObject } from '#base/util/json.js'

const object = (properties: JsonObject, others: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  ...others,
})

const ZOD: Readonly<Record<string, z.ZodType>> = {
  'email().max()': z.object({ mail: z.email().max(100) }),
  'regex().length()': z.object({
    code: z
      .string()
      .regex(/^[A-Z]{2}\d{4}$/)
      .length(6),
  }),
  'regex().min().max()': z.object({
    name: z
      .string()
      .regex(/^[a-z]+$/)
      .min(3)
      .max(10),
  }),
  'multipleOf()': z.object({ price: z.number().multipleOf(0.05), pages: z.int().multipleOf(4) }),
  'emoji()': z.object({ mood: z.emoji() }),
  'url()': z.object({ site: z.url() }),
  'iso dates': z.object({ at: z.iso.datetime(), on: z.iso.date(), time: z.iso.time() }),
  'int32, uint32': z.object({ a: z.int32(), b: z.uint32() }),
  ids: z.object({ a: z.uuid(), b: z.cuid2(), c: z.ulid(), d: z.nanoid() }),
  'ip and base64': z.object({ ip: z.ipv4(), cidr: z.cidrv4(), data: z.base64() }),
  'startsWith().endsWith()': z.object({ path: z.string().startsWith('/').endsWith('.ts') }),
  'record of an enum': z.record(z.enum(['red', 'green']), z.number()),
  record: z.record(z.string().min(1), z.number()),
  intersection: z.intersection(z.object({ a: z.string() }), z.object({ b: z.number() })),
  'discriminated union': z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('circle'), r: z.number().positive() }),
    z.object({ kind: z.literal('square'), side: z.number().positive() }),
  ]),
  'union of objects': z.union([z.object({ a: z.string() }), z.object({ a: z.number(), b: z.string() })]),
  'tuple with rest': z.tuple([z.string(), z.number()], z.boolean()),
  'nonempty, nullable, default': z.object({
    tags: z.array(z.string()).nonempty(),
    note: z.string().nullable(),
    count: z.number().default(3),
  }),
}

const PYDANTIC: Readonly<Record<string, JsonObject>> = {
  HttpUrl: object({ url: { format: 'uri', minLength: 1, maxLength: 2083, type: 'string' } }),
  'set[str]': object({ tags: { items: { type: 'string' }, type: 'array', uniqueItems: true } }),
  'frozenset[int]': object({ ids: { items: { type: 'integer' }, type: 'array', uniqueItems: true, minItems: 1 } }),
  'conint(multiple_of=5)': object({ n: { type: 'integer', multipleOf: 5, minimum: 0, maximum: 100 } }),
  Path: object({ file: { format: 'path', type: 'string' } }),
  'dict[Enum, int]': object(
    { scores: { additionalProperties: { type: 'integer' }, propertyNames: { $ref: '#/$defs/Color' }, type: 'object' } },
    { $defs: { Color: { enum: ['red', 'green'], type: 'string' } } },
  ),
  'dict[int, str] with a pattern': object({
    names: { patternProperties: { '^\\d+$': { type: 'string' } }, type: 'object' },
  }),
  Decimal: object({
    price: { anyOf: [{ type: 'number' }, { type: 'string', pattern: '^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$' }] },
  }),
  'EmailStr, UUID4, timedelta': object({
    mail: { format: 'email', type: 'string' },
    id: { format: 'uuid4', type: 'string' },
    took: { format: 'duration', type: 'string' },
  }),
  'SecretStr, IPvAnyAddress': object({
    secret: { format: 'password', type: 'string', writeOnly: true },
    ip: { format: 'ipvanyaddress', type: 'string' },
  }),
  'Optional of a reference with a title': object(
    {
      child: { anyOf: [{ $ref: '#/$defs/Node' }, { type: 'null' }], default: null },
      own: { $ref: '#/$defs/Node', title: 'Own' },
    },
    { $defs: { Node: object({ name: { type: 'string' } }) } },
  ),
  'inheritance of version 1': {
    title: 'Child',
    allOf: [
      { $ref: '#/definitions/Base' },
      { type: 'object', properties: { b: { type: 'integer' } }, required: ['b'] },
    ],
    definitions: { Base: object({ a: { type: 'string' } }) },
  },
  'one of two fields': {
    ...object({ a: { type: 'string' }, b: { type: 'string' } }),
    required: [],
    anyOf: [{ required: ['a'] }, { required: ['b'] }],
  },
  'fields that need each other': {
    ...object({ card: { type: 'string' }, address: { type: 'string' } }),
    dependentRequired: { card: ['address'] },
  },
  'if, then, else': {
    ...object({ country: { enum: ['de', 'us'] }, zip: { type: 'string' } }),
    if: { properties: { country: { const: 'de' } } },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { properties: { zip: { pattern: '^\\d{5}$' } } },
  },
  'at least two properties': { type: 'object', additionalProperties: { type: 'number' }, minProperties: 2 },
  'not a word': object({ name: { type: 'string', maxLength: 20, not: { const: 'admin' } } }),
  'nullable as OpenAPI writes it': object({ a: { type: 'string', nullable: true } }),
  'integer as an enumeration with names': object({
    level: { enum: [1, 2, 3], type: 'integer', 'x-enum-varnames': ['a'] },
  }),
}

const SCHEMARS: Readonly<Record<string, JsonObject>> = {
  u32: object({ n: { type: 'integer', format: 'uint32', minimum: 0 } }),
  'HashMap<u8, String>': {
    type: 'object',
    patternProperties: { '^\\d+$': { type: 'string' } },
    additionalProperties: false,
  },
  'char and NonZeroU8': object({
    c: { type: 'string', minLength: 1, maxLength: 1 },
    n: { type: 'integer', format: 'uint8', minimum: 1, maximum: 255 },
  }),
  'an enum with data': {
    oneOf: [
      { type: 'string', enum: ['Unit'] },
      { ...object({ Value: { type: 'number', format: 'double' } }), additionalProperties: false },
    ],
  },
  'a flattened struct': {
    type: 'object',
    properties: { id: { type: 'integer' } },
    required: ['id'],
    allOf: [{ $ref: '#/$defs/Meta' }],
    $defs: { Meta: object({ title: { type: 'string', maxLength: 12 } }) },
  },
}

/** Name and schema of each. */
export const EVERYDAY_SCHEMAS: readonly (readonly [name: string, schema: JsonObject])[] = [
  ...Object.entries(ZOD).map(([name, schema]) => [`zod: ${name}`, z.toJSONSchema(schema) as JsonObject] as const),
  ...Object.entries(PYDANTIC).map(([name, schema]) => [`pydantic: ${name}`, schema] as const),
  ...Object.entries(SCHEMARS).map(([name, schema]) => [`schemars: ${name}`, schema] as const),
]
