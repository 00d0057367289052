/**
 * Grammars in Lark's notation with texts that they take and texts that they do not.
 *
 * Every row agrees with Lark 1.3.1 itself (Earley, dynamic lexer): `lark.Lark(grammar).parse(text)` parses the ones and fails on the others.
 *
 * @type {{ name: string, grammar: string, taken: string[], refused: string[] }[]}
 */
export const LARK_GRAMMARS = [
  {
    name: 'a choice over several lines, comments, aliases',
    grammar: `// what to say
start: greeting " " who  // both
?greeting: "hello" -> formal
         | "hi"   -> casual
# the other comment
!who: "world" | "all"`,
    taken: ['hello world', 'hi all'],
    refused: ['hi', 'hiworld', 'hello', 'bye all', ' hi all'],
  },
  {
    name: 'SQL: texts without case, imports, white space ignored',
    grammar: `start: select
select: "select"i columns "from"i NAME [where] ";"?
columns: NAME ("," NAME)* | "*"
where: "where"i NAME OPERATOR (SIGNED_NUMBER | ESCAPED_STRING)
OPERATOR: "=" | "<" | ">" | "<="
%import common.CNAME -> NAME
%import common (SIGNED_NUMBER, ESCAPED_STRING)
%import common.WS
%ignore WS`,
    taken: [
      'select a from b',
      'SELECT a, b FROM t WHERE x <= -2.5;',
      'Select*From t',
      ' \n select a\tfrom b where c = "it \\"is\\"" ; \n',
    ],
    refused: [
      'select from b',
      'select a from',
      'select a, from b',
      'select a from b where c',
      'select a from b where c = "x',
    ],
  },
  {
    name: 'arithmetic: rules that begin with themselves',
    grammar: `?start: sum
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom | product "*" atom -> mul
?atom: NUMBER | "-" atom -> neg | "(" sum ")"
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE`,
    taken: ['1', '1+2*3', '(1 - 2) * -3.5e1', ' 7 '],
    refused: ['', '1+', '(1', '1\n+2', 'x'],
  },
  {
    name: 'JSON',
    grammar: `?start: value
?value: object | array | string | SIGNED_NUMBER -> number | "true" | "false" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: string ":" value
string: ESCAPED_STRING
%import common.ESCAPED_STRING
%import common.SIGNED_NUMBER
%import common.WS
%ignore WS`,
    taken: ['{"a": [1, -2.5e3, true], "b": {}}', '[]', '"x"', ' [ "a\\\\" , null ] '],
    refused: ['{a: 1}', '[1,]', '{"a" 1}', '"a\\"', 'nul'],
  },
  {
    name: 'how often',
    grammar: `start: A~2 b~1..3 "z"? C*
A: "a"
b: "b" | "x"
C: "c" "d"+`,
    taken: ['aab', 'aabxbz', 'aaxcdddcd', 'aabzcd'],
    refused: ['ab', 'aa', 'aabbbb', 'aaabz', 'aabc'],
  },
  {
    name: 'regular expressions and their flags',
    grammar: String.raw`start: ID "=" HEX | FREE | "v" NOTE
ID: /[a-z_]\w{0,3}/i
HEX: /0x(?:[0-9a-f]{2})+/i
FREE: /<[^>"\/]+>/
NOTE: /\/.(\d|é)+\//s`,
    taken: ['a=0xFF', 'Ab_1=0XaB09', '<é\n🐲>', '<a b>', 'v/\n1é/'],
    refused: ['1a=0xFF', 'abcde=0x00', 'a=0xF', '<>', '<a"b>', 'v/1/', 'v//'],
  },
  {
    name: 'ranges, letters beyond ASCII, escapes',
    grammar: String.raw`start: ONE | TWO | "Straße"i | "\t\x41\u00e9\"\\" | "\d"
ONE: "a".."f" "0".."3"
TWO: "α".."ω"~2`,
    taken: ['a0', 'f3', 'αω', 'straßE', '\tAé"\\', '\\d'],
    refused: ['g0', 'a4', 'α', 'STRASSE', '\tA', '1'],
  },
  {
    name: 'an empty alternative and optional parts in brackets',
    grammar: `start: "a" rest ["!" "?"]
rest: | "b" rest`,
    taken: ['a', 'abb', 'ab!?'],
    refused: ['', 'b', 'a!', 'a?'],
  },
  {
    name: 'several things are ignored, in terminals nothing',
    grammar: `start: WORD WORD+ INT
%import common.WORD
%import common.INT
%ignore " "
%ignore /#[^#]*#/
`,
    taken: ['a b 1', 'ab # note # cd 12', ' a  b#x##y# 1 '],
    refused: ['1', 'a 1 b', 'a b 1 2', 'a b #1'],
  },
  {
    name: 'a rule called root, names with underscores, start not first',
    grammar: `root: _X
_X: "x"
_inner: root root
start: _inner "."`,
    taken: ['xx.'],
    refused: ['x', 'x.', 'xx'],
  },
  ...[
    ['DIGIT', ['0'], ['a', '01']],
    ['HEXDIGIT', ['0', 'a', 'F'], ['g', '']],
    ['INT', ['0', '0123'], ['-1', '1.0', '']],
    ['SIGNED_INT', ['1', '-1', '+22'], ['--1', '1.0']],
    ['DECIMAL', ['1.', '1.5', '.5'], ['1', '.', '-1.5']],
    ['FLOAT', ['1.5', '1e5', '.5E-3', '1.'], ['1', 'e5', '1e']],
    ['SIGNED_FLOAT', ['-1.5', '+1e5'], ['-1', '- 1.5']],
    ['NUMBER', ['1', '1.5', '1e5'], ['-1', '.']],
    ['SIGNED_NUMBER', ['1', '-1.5e+3'], ['1-', '+']],
    ['ESCAPED_STRING', ['""', '"a"', '"a\\"b"', '"\\\\"', '"\'é"'], ['"', '"a', '"a\\"', '"a\nb"', '"a"b"']],
    ['LCASE_LETTER', ['a'], ['A', 'é']],
    ['UCASE_LETTER', ['Z'], ['z']],
    ['LETTER', ['a', 'Z'], ['1', 'ab']],
    ['WORD', ['abC'], ['a1', '']],
    ['CNAME', ['a', '_a1', 'A_b'], ['1a', 'a-b']],
    ['WS_INLINE', [' ', '\t '], ['\n', '']],
    ['WS', [' ', '\r\n\f\t'], ['', 'a', '\v']],
    ['CR', ['\r'], ['\n']],
    ['LF', ['\n'], ['\r']],
    ['NEWLINE', ['\n', '\r\n\n'], ['\r', ' \n']],
    ['SH_COMMENT', ['#', '# a'], ['# a\n', 'a']],
    ['CPP_COMMENT', ['//', '// a'], ['/ a', '// a\n']],
    ['C_COMMENT', ['/**/', '/* a\n* b **/'], ['/* a', '/*/']],
    ['SQL_COMMENT', ['--', '-- a'], ['- a', '-- a\n']],
  ].map(([name, taken, refused]) => ({
    name: `common.${name}`,
    grammar: `start: ${name}\n%import common.${name}`,
    taken,
    refused,
  })),
]
