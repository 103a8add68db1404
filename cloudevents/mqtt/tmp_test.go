package mqtt_test
import ("testing";"time";"github.com/spokewire/sdk-go/cloudevents";"github.com/spokewire/sdk-go/cloudevents/mqtt";"github.com/spokewire/sdk-go/internal/mosquitto")
func TestTmp(t *testing.T){
	plain := mosquitto.Start(t, mosquitto.Options{WebSockets: true})
	for _, n := range []int{100,1000,3000,5000,10000,100000} {
		received := make(chan cloudevents.Message, 1)
		conn := connectWith(t, mqtt.Options{BrokerURL: plain.WebSocketURL()}, received, "topic/+")
		e := sampleEvent(); e.SetDataContentType("text/plain"); e.DataEncoded = make([]byte,n)
		s:=time.Now(); publish(t, conn, "topic/x", e); a:=time.Since(s); <-received
		t.Log(n, a, time.Since(s))
		_ = conn.Close()
	}
}
