// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package tlsfiles_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/spokewire/sdk-go/internal/tlsfiles"
)

func TestErrorsHaveTheNamesOfUsers(t *testing.T) {
	names := tlsfiles.OptionNames{"CAFile": "--ca", "Address": "--hub"}
	for _, test := range []struct {
		reason string
		names  tlsfiles.OptionNames
		err    error
		want   string
	}{
		{"a field", names, errors.New("check CAFile, and the host in Address"), "check --ca, and the host in --hub"},
		{"a part of a word", names, errors.New("ClientCAFile and addresses"), "ClientCAFile and addresses"},
		{"no names", nil, errors.New("check CAFile"), "check CAFile"},
		{"twice", tlsfiles.OptionNames{"hub": "--hub"}, tlsfiles.OptionNames{"Address": "hub"}.Error(errors.New("Address")), "hub"},
	} {
		got := test.names.Error(test.err)
		if got.Error() != test.want || !errors.Is(got, test.err) {
			t.Errorf("%s: %v, want %q", test.reason, got, test.want)
		}
	}
	if err := names.Error(nil); err != nil {
		t.Errorf("%v, want nil", err)
	}
}

func TestInvalidNamesTheKindOfOptionsWithoutNames(t *testing.T) {
	missing := fmt.Errorf("CAFile: %w", fs.ErrNotExist)
	for want, names := range map[string]tlsfiles.OptionNames{
		"MQTT options: CAFile: file does not exist": nil,
		"--ca: file does not exist":                 {"CAFile": "--ca"},
	} {
		if err := names.Invalid("MQTT options", missing); err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
