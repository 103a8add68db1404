// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spokewire/sdk-go/examples/internal/rollouts"
	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// withoutType replaces an error of encoding/json that contains a Go type.
func withoutType(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	must := "must be of another type"
	switch wrong.Type.Kind() {
	case reflect.String:
		must = `must be a text, for example "5m"`
	case reflect.Int32:
		must = "must be a whole number or a percentage"
	case reflect.Bool:
		must = "must be true or false"
	case reflect.Slice:
		must = "must be a list"
	}
	return fmt.Errorf("%s: %q: %s", wrong.Field, wrong.Value, must)
}

// Rollout reads a rollout from YAML or JSON, with clusters as provider+name. The engine validates its
// values.
func Rollout(text []byte) (*rsync.Rollout, error) {
	object, err := yamldoc.StrictJSON(text)
	if err != nil {
		return nil, err
	}
	var r rollouts.Rollout[[]string]
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return nil, withoutType(err)
	}
	return r.Resolve(func(group int, names []string) (out []appcontext.ClusterID, err error) {
		for i, c := range names {
			provider, name, ok := strings.Cut(c, "+")
			if !ok {
				return nil, fmt.Errorf("groups[%d].clusters[%d]: %q is not provider+name", group, i, c)
			}
			out = append(out, appcontext.ClusterID{Provider: provider, Name: name})
		}
		return out, nil
	})
}
