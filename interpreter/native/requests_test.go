// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"testing"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// TestExtremeExponentIsRejected checks that a request with an extreme exponent is rejected. Its sum would take
// minutes and all memory.
func TestExtremeExponentIsRejected(t *testing.T) {
	for _, quantity := range []string{"1e2147483647", "1e-2147483647"} {
		pod := parsed(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{
			"containers":[{"name":"a","resources":{"requests":{"cpu":"`+quantity+`"}}},{"name":"b","resources":{"requests":{"cpu":"1"}}}]}}`)
		_, _, err := native.New().Replicas(t.Context(), pod)
		var refused *interpreter.RefusedError
		if !errors.As(err, &refused) || refused.Code != 400 ||
			refused.Message != "request.object does not fit *v1.Pod: the quantity "+quantity+
				" has more than 128 characters, or an exponent of more than 3 digits" {
			t.Errorf("got %v", err)
		}
	}
}
