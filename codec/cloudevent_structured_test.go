// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	cetypes "github.com/cloudevents/sdk-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/codec"
)

// sameEvent compares contexts and data.
var sameEvent = cmp.Options{
	cmp.Comparer(func(a, b url.URL) bool { return a.String() == b.String() }),
	cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) }),
}

// TestStructuredInterop checks that this package and the CloudEvents SDK read the output of each
// other.
func TestStructuredInterop(t *testing.T) {
	for _, tc := range goldenCases() {
		t.Run(tc.name, func(t *testing.T) {
			_, want, err := codec.ManifestWork.Encode(tc.message)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := codec.AppendStructured(nil, want)
			if err != nil {
				t.Fatal(err)
			}
			var theirRead ce.Event
			if err := json.Unmarshal(ours, &theirRead); err != nil {
				t.Fatalf("the SDK does not read our event: %v", err)
			}
			if err := theirRead.Validate(); err != nil {
				t.Fatalf("the SDK finds our event invalid: %v", err)
			}
			if diff := cmp.Diff(want, &theirRead, sameEvent); diff != "" {
				t.Errorf("the SDK reads something else (-want +got):\n%s", diff)
			}
			theirs, err := want.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			ourRead, err := codec.ParseStructured(theirs)
			if err != nil {
				t.Fatalf("we do not read the SDK's event: %v", err)
			}
			if diff := cmp.Diff(want, ourRead, sameEvent); diff != "" {
				t.Errorf("we read something else (-want +got):\n%s", diff)
			}
		})
	}
}

// newEvent makes an event with all attributes and each type of extension.
func newEvent() *ce.Event {
	subject, contentType := "a subject", "application/json"
	return &ce.Event{
		Context: &ce.EventContextV1{
			ID: "1", Type: "t", Source: *cetypes.ParseURIRef("/s"), Subject: &subject, DataContentType: &contentType,
			DataSchema: cetypes.ParseURI("http://schema"), Time: &cetypes.Timestamp{Time: eventTime},
			Extensions: map[string]any{
				"text": "a \"b\"\u2028\x7f", "number": int32(-7), "yes": true, "bytes": []byte("ab"),
				"when": cetypes.Timestamp{Time: eventTime},
			},
		},
		DataEncoded: []byte(`{"a":1}`),
	}
}

func TestAppendStructured(t *testing.T) {
	const attributes = `{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"a subject","dataschema":"http://schema",` +
		`"time":"2024-05-06T07:08:09.123456789Z"`
	const extensions = `"bytes":"YWI=","number":-7,"text":"a \"b\"` + "\u2028\x7f" +
		`","when":"2024-05-06T07:08:09.123456789Z","yes":true`
	text := "text/plain; charset=utf-8"
	for _, tc := range []struct {
		name, reason string
		change       func(*ce.Event, *ce.EventContextV1)
		want         string
	}{
		{"JSON", "copied", func(*ce.Event, *ce.EventContextV1) {}, attributes + `,"datacontenttype":"application/json",` +
			extensions + `,"data":{"a":1}}`},
		{"no type", "means JSON", func(_ *ce.Event, c *ce.EventContextV1) { c.DataContentType = nil }, attributes + `,` +
			extensions + `,"data":{"a":1}}`},
		{"text", "a string", func(_ *ce.Event, c *ce.EventContextV1) { c.DataContentType = &text },
			attributes + `,"datacontenttype":"text/plain; charset=utf-8",` + extensions + `,"data":"{\"a\":1}"}`},
		{"bytes", "not UTF-8", func(e *ce.Event, c *ce.EventContextV1) {
			c.DataContentType, e.DataEncoded = &text,
				[]byte{0xff}
		}, attributes + `,"datacontenttype":"text/plain; charset=utf-8",` + extensions + `,"data_base64":"/w=="}`},
		{"base64", "as asked for", func(e *ce.Event, _ *ce.EventContextV1) { e.DataBase64 = true },
			attributes + `,"datacontenttype":"application/json",` + extensions + `,"data_base64":"eyJhIjoxfQ=="}`},
		{"none", "no data at all", func(e *ce.Event, c *ce.EventContextV1) {
			e.DataEncoded, c.DataContentType, c.Extensions = []byte{}, nil, nil
		}, attributes + `}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEvent()
			tc.change(e, e.Context.(*ce.EventContextV1))
			got, err := codec.AppendStructured([]byte("before"), e)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("before"+tc.want, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			back, err := codec.ParseStructured(got[len("before"):])
			if err != nil {
				t.Fatal(err)
			}
			if string(back.DataEncoded) != string(e.DataEncoded) {
				t.Errorf("%s: data comes back as %q", tc.reason, back.DataEncoded)
			}
		})
	}
}

func TestAppendStructuredRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		change       func(*ce.Event, *ce.EventContextV1)
		field        string
	}{
		{"no context", "no event", func(e *ce.Event, _ *ce.EventContextV1) { e.Context = nil }, ""},
		{"no ID", "required", func(_ *ce.Event, c *ce.EventContextV1) { c.ID = "" }, "id"},
		{"no source", "required", func(_ *ce.Event, c *ce.EventContextV1) { c.Source = cetypes.URIRef{} }, "source"},
		{"no type", "required", func(_ *ce.Event, c *ce.EventContextV1) { c.Type = "" }, "type"},
		{"bad extension", "no CloudEvents type", func(_ *ce.Event, c *ce.EventContextV1) { c.Extensions["bad"] = []string{} },
			"bad"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEvent()
			tc.change(e, e.Context.(*ce.EventContextV1))
			got, err := codec.AppendStructured([]byte("before"), e)
			if string(got) != "before" {
				t.Errorf("%s: got %q", tc.reason, got)
			}
			wantError(t, err, codec.CodeAttribute, tc.field, tc.reason)
		})
	}
	if _, err := codec.AppendStructured(nil, nil); err == nil {
		t.Error("nil is no event")
	}
}

// TestStructuredV03 checks that an event of version 0.3 is written as version 1.0.
func TestStructuredV03(t *testing.T) {
	e := ce.New(ce.CloudEventsVersionV03)
	e.SetID("1")
	e.SetSource("/s")
	e.SetType("t")
	got, err := codec.AppendStructured(nil, &e)
	if want := `{"specversion":"1.0","id":"1","source":"/s","type":"t"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestParseStructured(t *testing.T) {
	const required = `"specversion":"1.0","id":"1","source":"/s","type":"t"`
	text := "text/plain"
	ctx := func(f func(*ce.EventContextV1)) *ce.Event {
		c := &ce.EventContextV1{ID: "1", Source: *cetypes.ParseURIRef("/s"), Type: "t"}
		f(c)
		return &ce.Event{Context: c}
	}
	extensions := func(m map[string]any) *ce.Event {
		return ctx(func(c *ce.EventContextV1) { c.Extensions = m })
	}
	withData := func(contentType *string, data string, base64 bool) *ce.Event {
		e := ctx(func(c *ce.EventContextV1) { c.DataContentType = contentType })
		e.DataEncoded, e.DataBase64 = []byte(data), base64
		return e
	}
	for _, tc := range []struct {
		name, reason, payload string
		want                  *ce.Event
	}{
		{"required only", "the rest is optional", `{` + required + `}`, ctx(func(*ce.EventContextV1) {})},
		{"any case", "names only", `{"SpecVersion":"1.0","ID":"1","Source":"/s","TYPE":"t","resourceID":"Ab"}`,
			extensions(map[string]any{"resourceid": "Ab"})},
		{"exact numbers", "64 bits and whatever else is written", `{` + required +
			`,"a":9223372036854775807,"b":-0,"c":1.50}`,
			extensions(map[string]any{"a": "9223372036854775807", "b": "-0", "c": "1.50"})},
		{"booleans", "as text", `{` + required + `,"a":true,"b":false}`,
			extensions(map[string]any{"a": "true", "b": "false"})},
		{"null", "as good as absent", `{` + required + `,"subject":null,"a":null,"data_base64":null}`,
			ctx(func(*ce.EventContextV1) {})},
		{"empty optional attributes", "as good as absent", `{` + required + `,"subject":"","time":"","datacontenttype":""}`,
			ctx(func(*ce.EventContextV1) {})},
		{"odd names", "cannot be attributes", `{` + required + `,"a_b":1,"ä":{},"":[]}`, ctx(func(*ce.EventContextV1) {})},
		{"last of two", "as in encoding/json", `{"id":"0","ID":"2",` + required + `}`, ctx(func(*ce.EventContextV1) {})},
		{"time zone", "UTC inside", `{` + required + `,"time":"2024-05-06T09:08:09.123456789+02:00"}`,
			ctx(func(c *ce.EventContextV1) { c.Time = &cetypes.Timestamp{Time: eventTime} })},
		{"space", "between all tokens", " {\n" + strings.ReplaceAll(strings.ReplaceAll(required, ":", "\t: "), ",",
			"\r\n, ") + " }\n ", ctx(func(*ce.EventContextV1) {})},
		{"escaped name", "the same name", `{` + required + `,"\u0061":"\u00e4"}`, extensions(map[string]any{"a": "ä"})},
		{"JSON data", "as it is", `{` + required + `,"data": {"a" : 1} }`, withData(nil, `{"a" : 1}`, false)},
		{"JSON string", "stays JSON without a content type", `{` + required + `,"data":"x"}`, withData(nil, `"x"`, false)},
		{"data in another case", "names in any case", `{` + required + `,"Data":[]}`, withData(nil, `[]`, false)},
		{"data before its type", "order does not count", `{"data":"x\n",` + required + `,"datacontenttype":"text/plain"}`,
			withData(&text, "x\n", false)},
		{"null text", "no data", `{` + required + `,"datacontenttype":"text/plain","data":null}`, withData(&text, "", false)},
		{"base64", "any content type", `{` + required + `,"data_base64":"eyJhIjoxfQ=="}`, withData(nil, `{"a":1}`, true)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := codec.ParseStructured([]byte(tc.payload))
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got, sameEvent); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseStructuredRefuses(t *testing.T) {
	const required = `"specversion":"1.0","id":"1","source":"/s","type":"t"`
	for _, tc := range []struct {
		name, reason, payload string
		code                  codec.Code
		field                 string
	}{
		{"nothing", "no JSON", ``, codec.CodeData, ""},
		{"list", "a batch is no event", `[{` + required + `}]`, codec.CodeData, ""},
		{"cut off", "half an event", `{` + required, codec.CodeData, ""},
		{"two events", "text after the first", `{` + required + `}{}`, codec.CodeData, ""},
		{"broken data", "not JSON", `{` + required + `,"data":{]}`, codec.CodeData, ""},
		{"too deep", "no stack overflow", `{` + required + `,"data":` + nested(codec.MaxDepth) + `}`, codec.CodeData, ""},
		{"far too deep", "no stack overflow", `{` + required + `,"data":` + strings.Repeat("[", 1<<20) + `}`, codec.CodeData,
			""},
		{"no version", "required", `{"id":"1","source":"/s","type":"t"}`, codec.CodeAttribute, "specversion"},
		{"old version", "another format", `{"specversion":"0.3","id":"1","source":"/s","type":"t"}`, codec.CodeAttribute,
			"specversion"},
		{"no ID", "required", `{"specversion":"1.0","source":"/s","type":"t"}`, codec.CodeAttribute, "id"},
		{"empty ID", "required", `{"specversion":"1.0","id":"","source":"/s","type":"t"}`, codec.CodeAttribute, "id"},
		{"no source", "required", `{"specversion":"1.0","id":"1","type":"t"}`, codec.CodeAttribute, "source"},
		{"bad source", "no URI reference", `{"specversion":"1.0","id":"1","source":"1:2","type":"t"}`, codec.CodeAttribute,
			"source"},
		{"no type", "required", `{"specversion":"1.0","id":"1","source":"/s"}`, codec.CodeAttribute, "type"},
		{"bad time", "not RFC 3339", `{` + required + `,"time":"yesterday"}`, codec.CodeAttribute, "time"},
		{"bad schema", "no URI", `{` + required + `,"dataschema":":"}`, codec.CodeAttribute, "dataschema"},
		{"object", "attributes are simple", `{` + required + `,"a":{}}`, codec.CodeAttribute, "a"},
		{"array", "attributes are simple", `{` + required + `,"a":[]}`, codec.CodeAttribute, "a"},
		{"two kinds of data", "which one", `{` + required + `,"data":{},"data_base64":""}`, codec.CodeData, "data_base64"},
		{"bad base64", "not base64", `{` + required + `,"data_base64":"?"}`, codec.CodeData, "data_base64"},
		{"base64 number", "not a string", `{` + required + `,"data_base64":7}`, codec.CodeData, "data_base64"},
		{"text number", "not a string", `{` + required + `,"datacontenttype":"text/plain","data":7}`, codec.CodeData, "data"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := codec.ParseStructured([]byte(tc.payload))
			if e != nil {
				t.Errorf("%s: got an event", tc.reason)
			}
			wantError(t, err, tc.code, tc.field, tc.reason)
		})
	}
}

// TestParseStructuredSharesData checks that data is a slice of the payload, and that an append to
// it cannot overwrite the rest of the payload.
func TestParseStructuredSharesData(t *testing.T) {
	payload := []byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1},"z":"1"}`)
	e, err := codec.ParseStructured(payload)
	if err != nil {
		t.Fatal(err)
	}
	if cap(e.DataEncoded) != len(e.DataEncoded) {
		t.Error("the data can grow into what follows it")
	}
	payload[strings.Index(string(payload), `"a":1`)+4] = '2'
	if string(e.DataEncoded) != `{"a":2}` {
		t.Error("the data was copied")
	}
}

func TestTimeIsUTC(t *testing.T) {
	e := newEvent()
	e.Context.(*ce.EventContextV1).Time.Time = eventTime.In(time.FixedZone("", 7200))
	got, err := codec.AppendStructured(nil, e)
	if err != nil || !strings.Contains(string(got), `"time":"2024-05-06T07:08:09.123456789Z"`) {
		t.Errorf("got %s, %v", got, err)
	}
}
