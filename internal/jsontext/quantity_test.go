// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// TestQuantities checks that an extreme quantity is an error immediately, in any place. Values that
// only look like a quantity are accepted.
func TestQuantities(t *testing.T) {
	requests := func(quantity string) string {
		return `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":` + quantity + `}}}]}}`
	}
	nines := strings.Repeat("9", 129)
	const limits = " has more than 128 characters, or an exponent of more than 3 digits"
	for _, test := range []struct{ name, text, want string }{
		{"exponent", requests(`"1e2147483647"`), "the quantity 1e2147483647" + limits},
		{"negative exponent", requests(`"1E-2147483647"`), "the quantity 1E-2147483647" + limits},
		{"number", requests(`1e+99999`), "the quantity 1e+99999" + limits},
		{"length", requests(`"` + nines + `"`), "the quantity " + nines[:32] + limits},
		{"after a key that is there twice", `{"kind":"Pod","kind":"Pod",` + requests(`"1e2147483647"`)[1:],
			"the quantity 1e2147483647" + limits},
		{"exponent that is not too large", requests(`"1e999"`), ""},
		{"exa", requests(`"1E"`), ""},
		{"other units", requests(`"1000000Ki"`), ""},
		{"digits", requests(`12345678`), ""},
		{"label", `{"metadata":{"labels":{"commit":"9e84210"}}}`, ""},
		{"label, after a key that is there twice", `{"kind":"Pod","kind":"Pod","metadata":{"labels":{"commit":"9e84210a"}}}`,
			""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := jsontext.Decode([]byte(test.text), &corev1.Pod{})
			var quantity *jsontext.QuantityError
			if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &quantity) || err.Error() != test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	// jsontext leaves this type to encoding/json and has no list of its fields. The quantity is
	// still an error.
	var odd struct {
		*child
		Limits corev1.ResourceList
	}
	if err := jsontext.Decode([]byte(`{"Limits":{"cpu":"1e-2147483647"}}`), &odd); err == nil {
		t.Error("a quantity in a type of another kind was decoded")
	}
}
