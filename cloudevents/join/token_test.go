// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/cloudevents/join"
)

func TestTokenHidesSecret(t *testing.T) {
	text := "abcdefghij." + strings.Repeat("s", 26) + "." + strings.Repeat("0", 64)
	token, err := join.ParseToken(" " + text + "\n")
	if err != nil || token.Reveal() != text || token.ID() != "abcdefghij" {
		t.Fatalf("%v, %v", token, err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, value := range []any{token, struct{ T join.Token }{token}, &token} {
			if printed := fmt.Sprintf(format, value); strings.Contains(printed, "sss") {
				t.Errorf("%s prints %s", format, printed)
			}
		}
	}
}

func TestParseTokenErrors(t *testing.T) {
	good := "abcdefghij." + strings.Repeat("s", 26) + "." + strings.Repeat("0", 64)
	for _, text := range []string{"", "x", good[1:], good[:len(good)-1], good + "0", strings.ToUpper(good),
		good + "\n" + good} {
		if token, err := join.ParseToken(text); err == nil || strings.Contains(err.Error(), "ssss") {
			t.Errorf("%q: %v, %v", text, token, err)
		}
	}
}
