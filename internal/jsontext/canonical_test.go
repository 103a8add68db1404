// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// TestCanonical checks the examples of RFC 8785, sections 3.2.2 to 3.2.4.
func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ name, reason, data, want string }{
		{"section 3.2.2", "space, escapes, numbers, literals", `{
			"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			"literals": [null, true, false]
		}`, `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"section 3.2.3", "order by UTF-16 code units, in which surrogates come before U+FB33", `{
			"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
			"1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
		}`, `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`},
		{"escapes", "the fewest", `"\b\t\n\f\r\u0000\u001f\u007f\u2028\/<>&"`, `"\b\t\n\f\r\u0000\u001f` + "\u007f\u2028" +
			`/<>&"`},
		{"nested", "at every level", `[ [ ] , { } , [ { "b" : [ 1 , 2 ] , "a" : { "d" : 1 , "c" : 2 } } ] ]`,
			`[[],{},[{"a":{"c":2,"d":1},"b":[1,2]}]]`},
		{"same name", "the last counts", `{"a":1,"a":2}`, `{"a":2}`},
		{"same name in disorder", "the last counts", `{"b":0,"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"strings that look like brackets", "no comma is lost", `["[","["]`, `["[","["]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := jsontext.Canonical([]byte(tc.data))
			if err != nil || string(got) != tc.want {
				t.Errorf("%s:\n got %s, %v\nwant %s", tc.reason, got, err, tc.want)
			}
		})
	}
	for _, bad := range []string{"", "{", "1e400", `[-1e400]`, `{"a":1e999}`} {
		if got, err := jsontext.Canonical([]byte(bad)); err == nil {
			t.Errorf("%q has no canonical form, got %s", bad, got)
		}
	}
}

// TestCanonicalNumbers checks the table of RFC 8785, appendix B.
func TestCanonicalNumbers(t *testing.T) {
	for _, tc := range []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	} {
		text := strconv.FormatFloat(math.Float64frombits(tc.bits), 'e', 17, 64)
		got, err := jsontext.Canonical([]byte(text))
		if err != nil || string(got) != tc.want {
			t.Errorf("%016x: got %s, %v; want %s", tc.bits, got, err, tc.want)
		}
	}
}
